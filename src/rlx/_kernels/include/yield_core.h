/* Giving one's processor to a thread that has none.
 *
 * A fork-join is as slow as its slowest participant, and the slowest by far is
 * one that the kernel took off its processor: another library's threads spin on
 * for tens of milliseconds after a call, share a core with ours for a time
 * slice (1 to 3 ms), and whoever waits for the thread they displaced wastes its
 * own core for that long. Measured with a spinning thread beside two of ours:
 * fork-joins of 0.5 ms ran no faster on two threads than on one.
 *
 * So who waits looks whether the thread it waits for runs at all: the thread's
 * CPU clock stands still when it does not. If so, the waiting thread moves the
 * other to its own processor and sleeps. A runnable thread that is not running
 * is moved by the kernel at once (3 to 5 us). The moved thread gets its mask of
 * processors back as soon as it has done what was waited for.
 */
#ifndef RLX_YIELD_CORE_H
#define RLX_YIELD_CORE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__) || defined(__i386__)
#define RLX_PAUSE() __builtin_ia32_pause()
#else
#define RLX_PAUSE() __asm__ __volatile__("yield")
#endif

/* What others may know of a thread that takes part in a job: what seldom changes, and lines of its own for what
 * changes in every job. */
typedef struct rlx_seat {
    _Alignas(128) _Atomic int32_t tid; /* 0: nobody sits here */
    _Atomic uint32_t sleeping; /* 1: until somebody makes it 0 */
    _Atomic int32_t cpu;       /* where it is, or was last */
    _Atomic int32_t avoids;    /* the processor that its mask leaves out, or -1 */
    _Atomic int32_t moved;     /* RLX_MOVED: given a processor, must take its mask back */
    int64_t used;              /* its CPU time when the caller looked last */
    cpu_set_t mask;            /* what it had, valid while `moved` */
    _Alignas(128) _Atomic int32_t working; /* others wait for it */
} rlx_seat;

static inline int64_t rlx_pool_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline int32_t rlx_gettid(void) { return (int32_t)syscall(SYS_gettid); }

static __thread int32_t rlx_tid;

/* The same without the system in the way; a child of fork() makes `rlx_tid` 0. */
static inline int32_t rlx_own_tid(void) {
    if (!rlx_tid)
        rlx_tid = rlx_gettid();
    return rlx_tid;
}

static inline void rlx_futex_wait(_Atomic uint32_t *word, uint32_t value, int64_t ns) {
    struct timespec t = {ns / 1000000000, ns % 1000000000};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, ns < 0 ? NULL : &t, NULL, 0);
}

static inline void rlx_futex_wake(_Atomic uint32_t *word, int n) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

/* CPU time that a thread of this process has used, -1 when it cannot be told. */
static inline int64_t rlx_cpu_time(int32_t tid) {
    struct timespec t;
    /* the kernel's encoding of a thread's scheduler clock: ~tid << 3 | per-thread | sched */
    clockid_t id = (clockid_t)((~(unsigned)tid << 3) | 6u);
    if (clock_gettime(id, &t))
        return -1;
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Whether the thread runs: did its clock move while ours did? Takes `ns`. */
static inline int rlx_is_stalled(int32_t tid, int64_t ns) {
    int64_t start = rlx_pool_now(), before = rlx_cpu_time(tid);
    if (before < 0)
        return 0;
    while (rlx_pool_now() - start < ns)
        RLX_PAUSE();
    int64_t after = rlx_cpu_time(tid);
    return after >= 0 && after - before < ns / 4;
}

enum { RLX_STAYS, RLX_MOVING, RLX_MOVED };

/* Move a stalled thread to this thread's processor. This one sleeps or yields next.
 * `allowed`: processors that the other may use, or NULL: as its mask says. */
static inline int rlx_give_core(rlx_seat *seat, const cpu_set_t *allowed) {
    int32_t tid = atomic_load(&seat->tid), stays = RLX_STAYS;
    int cpu = sched_getcpu(), given = 0;
    cpu_set_t one, mask;
    /* From here on the other neither sleeps nor leaves before this is settled. */
    if (cpu < 0 || tid == 0 || !atomic_compare_exchange_strong(&seat->moved, &stays, RLX_MOVING))
        return 0;
    if (atomic_load(&seat->working) && !sched_getaffinity(tid, sizeof(mask), &mask) && CPU_ISSET(cpu, allowed ? allowed : &mask)) {
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        given = 1; /* with one processor it will run here as soon as we sleep */
        if (CPU_COUNT(&mask) > 1 || !CPU_ISSET(cpu, &mask)) {
            seat->mask = mask;
            if (!sched_setaffinity(tid, sizeof(one), &one)) {
                atomic_store(&seat->moved, RLX_MOVED);
                return 1;
            }
            given = 0;
        }
    }
    atomic_store(&seat->moved, RLX_STAYS);
    return given;
}

/* The moved thread takes its mask back; `home` >= 0: and goes there. */
static inline void rlx_take_mask(rlx_seat *seat, int home) {
    int32_t moved = atomic_load_explicit(&seat->moved, memory_order_acquire);
    if (moved != RLX_MOVED || !atomic_compare_exchange_strong(&seat->moved, &moved, RLX_MOVING))
        return;
    if (home >= 0 && home != sched_getcpu() && CPU_ISSET(home, &seat->mask)) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(home, &one);
        sched_setaffinity(0, sizeof(one), &one);
    }
    sched_setaffinity(0, sizeof(seat->mask), &seat->mask);
    atomic_store(&seat->moved, RLX_STAYS);
}

/* Before a thread leaves or sleeps: whoever is moving it must be done. */
static inline void rlx_settle_mask(rlx_seat *seat) {
    while (atomic_load(&seat->moved) == RLX_MOVING)
        sched_yield();
    rlx_take_mask(seat, -1);
}

/* Tell others where this thread is. */
static inline void rlx_note_cpu(rlx_seat *seat) {
    int32_t cpu = sched_getcpu();
    if (atomic_load_explicit(&seat->cpu, memory_order_relaxed) != cpu)
        atomic_store_explicit(&seat->cpu, cpu, memory_order_relaxed);
}

/* Keep a worker off a processor, if it may use any other: one that waits there, or was moved there and has done what
 * was waited for, runs elsewhere at once. */
static inline void rlx_keep_off(rlx_seat *seat, const cpu_set_t *allowed, int cpu) {
    int32_t tid = atomic_load(&seat->tid), moved = atomic_load(&seat->moved);
    cpu_set_t others = *allowed;
    if (cpu < 0 || tid == 0 || moved == RLX_MOVING || (moved == RLX_STAYS && atomic_load(&seat->avoids) == cpu) ||
        !atomic_compare_exchange_strong(&seat->moved, &moved, RLX_MOVING))
        return;
    CPU_CLR(cpu, &others);
    if (CPU_COUNT(&others) ? sched_setaffinity(tid, sizeof(others), &others) == 0 : moved == RLX_STAYS) {
        atomic_store(&seat->avoids, cpu);
        atomic_store(&seat->cpu, -1); /* not here; it will say where */
        moved = RLX_STAYS;
    }
    atomic_store(&seat->moved, moved);
}

#endif
