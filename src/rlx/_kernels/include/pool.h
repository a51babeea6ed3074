/* One process-wide fork-join pool.
 *
 * A job is a thunk; its range is handed out in chunks that shrink towards the
 * end, so a slow core does less. The caller works too and never waits for a
 * worker that has not joined: a worker joins by incrementing the participants
 * of a job that is still open, and the caller closes the job before it waits,
 * so a sleeping or preempted worker costs nothing. One that is preempted within
 * a chunk is replaced by a spare worker while there is work, and given the
 * caller's processor when there is none; a caller that is preempted is given a
 * worker's (yield_core.h). So there is a worker more than threads, and scratch
 * for it; no more than `threads` of them run at a time.
 *
 * Workers spin only between rlx_pool_enter and rlx_pool_leave (a run that wants
 * threads), for IDLE_NS without a job and for SPIN_NS after the run; then they
 * sleep on a futex. One run at a time owns the pool; another that asks
 * meanwhile runs on its own thread alone, with the same bits, because kernels
 * do not depend on the cut. After fork() the child starts without workers and
 * makes its own.
 */
#ifndef RLX_POOL_H
#define RLX_POOL_H

#include "yield_core.h"
#include <string.h>
#include "abi.h"
#include "fp_mode.h"

#define RLX_MAX_THREADS 64
/* A sleeping worker is woken in 5 to 50 us: spin a few times that within a run. */
#define RLX_IDLE_NS 200000
#define RLX_SPIN_NS 100000
#define RLX_SPARE_NS 30000
#define RLX_SURVEY_NS 40000
/* Below this wait a look at the other's clock would cost more than it can save. */
#define RLX_PATIENCE_NS 15000
#define RLX_LOOK_NS 6000
#define RLX_CHUNK_NS 1000

/* What changes hands during a job is on lines of its own: who takes a chunk must not take away the others' view of
 * the job, nor who counts himself in the gate. */
typedef struct rlx_pool {
    pthread_mutex_t lock;      /* guards growing */
    atomic_flag busy;          /* owned by a run */
    _Atomic int64_t active;    /* runs inside enter/leave: workers spin */
    _Alignas(64) _Atomic uint64_t gate; /* epoch << 16 | open << 15 | participants */
    _Alignas(64) _Atomic uint32_t bell; /* sleeping workers wait for it to change */
    _Atomic int32_t sleeping;
    _Atomic uint32_t done;     /* the caller waits for it to change */
    _Atomic int32_t waiting;   /* the caller sleeps on `done` */
    int n_workers;
    int fork_hook;
    /* the job */
    _Alignas(64) const rlx_thunk *thunk;
    const rlx_frame *frame;
    unsigned fp_mode;          /* of the run */
    int64_t first, end;        /* items of the job */
    int64_t unit;              /* what is handed out, a multiple of the grain */
    uint32_t least;            /* units of the smallest chunk */
    int threads;               /* participants wanted, the caller among them */
    _Atomic int32_t room;      /* participants allowed besides the caller */
    _Alignas(64) _Atomic uint64_t range; /* units left: first | end << 32 */
    _Alignas(64) _Atomic int32_t status;
    rlx_seat seats[RLX_MAX_THREADS + 1]; /* 0: the caller; i + 1: worker i */
} rlx_pool;

static rlx_pool rlx_the_pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .busy = ATOMIC_FLAG_INIT};

#define RLX_OPEN_BIT ((uint64_t)1 << 15)
#define RLX_COUNT_MASK (RLX_OPEN_BIT - 1)

static void rlx_pool_sleep(rlx_pool *p, uint64_t gate) {
    uint32_t bell = atomic_load(&p->bell);
    atomic_fetch_add(&p->sleeping, 1);
    /* who rings looks at `sleeping` after it changed `active` or `gate` */
    if (atomic_load(&p->gate) == gate)
        rlx_futex_wait(&p->bell, bell, -1);
    atomic_fetch_sub(&p->sleeping, 1);
}

static void rlx_pool_ring(rlx_pool *p, int n) {
    if (n > 0 && atomic_load(&p->sleeping)) {
        atomic_fetch_add(&p->bell, 1);
        rlx_futex_wake(&p->bell, n);
    }
}

/* Let a spare worker in for every participant that has lost its processor. */
static void rlx_pool_survey(rlx_pool *p, int64_t *looked) {
    int64_t now = rlx_pool_now(), passed = now - *looked;
    if (passed < RLX_SURVEY_NS || !atomic_load_explicit(&p->sleeping, memory_order_relaxed))
        return;
    int stalled = 0, running = 0;
    for (int i = 1; i <= p->threads; i++) {
        rlx_seat *seat = &p->seats[i];
        if (!atomic_load_explicit(&seat->working, memory_order_acquire)) {
            seat->used = 0;
            continue;
        }
        int64_t used = rlx_cpu_time(atomic_load(&seat->tid));
        if (seat->used && used - seat->used < passed / 8)
            stalled++;
        else
            running++;
        seat->used = used;
    }
    *looked = now;
    if (running < p->threads - 1) {
        atomic_store(&p->room, p->threads - 1 + stalled);
        rlx_pool_ring(p, 1);
    }
}

/* Take chunks until none is left: the caller from the bottom, workers from the
 * top, so that a thread meets the same weights from run to run and from phase to
 * phase, in its own cache. A failure keeps the others from starting. */
static void rlx_pool_work(rlx_pool *p, const rlx_thunk *t, const rlx_frame *f, int64_t *looked) {
    uint32_t least = p->least, share = 2 * (uint32_t)p->threads;
    int64_t unit = p->unit, first = p->first, last = p->end;
    uint64_t range = atomic_load_explicit(&p->range, memory_order_relaxed);
    for (;;) {
        uint32_t lo = (uint32_t)range, hi = (uint32_t)(range >> 32), left = hi - lo, take = left / share;
        if (hi <= lo)
            return;
        take = take < least ? least < left ? least : left : take;
        if (looked)
            hi = lo + take;
        else
            lo = hi - take;
        uint64_t rest = looked ? (range & ~(uint64_t)UINT32_MAX) | hi : (uint64_t)lo << 32 | (uint32_t)range;
        if (!atomic_compare_exchange_weak_explicit(&p->range, &range, rest, memory_order_relaxed,
                                                   memory_order_relaxed))
            continue;
        int64_t end = first + hi * unit < last ? first + hi * unit : last;
        int status = t->fn(t, f, first + lo * unit, end);
        if (status) {
            int32_t none = 0;
            atomic_compare_exchange_strong(&p->status, &none, status);
            atomic_store(&p->range, 0);
            return;
        }
        if (looked)
            rlx_pool_survey(p, looked);
        range = atomic_load_explicit(&p->range, memory_order_relaxed);
    }
}

/* A worker's part of an open job; it has been counted in. */
static void rlx_pool_join(rlx_pool *p, rlx_seat *seat, int index) {
    rlx_frame mine = *p->frame;
    rlx_error error = {0};
    mine.tid = index + 1;
    mine.error = &error;
    rlx_fp_set(p->fp_mode);
    seat->cpu = sched_getcpu();
    atomic_store_explicit(&seat->working, 1, memory_order_release);
    rlx_pool_work(p, p->thunk, &mine, NULL);
    if (error.status == 0 && atomic_load(&p->status)) {
        /* the first failing position wins, whoever met it */
        pthread_mutex_lock(&p->lock);
        if (error.value || error.bound || error.position)
            *p->frame->error = error;
        pthread_mutex_unlock(&p->lock);
    }
    atomic_store(&seat->working, 0);
    atomic_fetch_sub_explicit(&p->gate, 1, memory_order_acq_rel);
    if (atomic_load(&p->waiting)) {
        atomic_fetch_add(&p->done, 1);
        rlx_futex_wake(&p->done, 1);
    }
    rlx_take_mask(seat, seat->cpu);
}

static void *rlx_pool_main(void *arg) {
    rlx_pool *p = &rlx_the_pool;
    int index = (int)(intptr_t)arg;
    rlx_seat *seat = &p->seats[index + 1], *caller = &p->seats[0];
    uint64_t seen = 0;
    int64_t since = rlx_pool_now();
    int64_t idle_limit = RLX_IDLE_NS;
    unsigned rounds = 0;
    atomic_store(&seat->tid, rlx_gettid());
    for (;;) {
        uint64_t gate = atomic_load_explicit(&p->gate, memory_order_acquire);
        if ((gate & RLX_OPEN_BIT) && (gate >> 16) != seen && index < p->threads &&
            (int32_t)(gate & RLX_COUNT_MASK) < atomic_load_explicit(&p->room, memory_order_relaxed)) {
            if (atomic_compare_exchange_weak_explicit(&p->gate, &gate, gate + 1,
                                                      memory_order_acq_rel, memory_order_relaxed)) {
                seen = gate >> 16;
                rlx_pool_join(p, seat, index);
                since = rlx_pool_now();
                idle_limit = RLX_IDLE_NS;
            }
            continue;
        }
        RLX_PAUSE();
        if (++rounds & 15)
            continue;
        rlx_take_mask(seat, seat->cpu);
        int64_t idle = rlx_pool_now() - since;
        int active = atomic_load_explicit(&p->active, memory_order_relaxed) != 0;
        if (idle > (active ? idle_limit : RLX_SPIN_NS)) {
            rlx_settle_mask(seat);
            rlx_pool_sleep(p, gate);
            rlx_avoid(caller->cpu);
            since = rlx_pool_now();
            idle_limit = RLX_SPARE_NS; /* until it is let in, it is a spare */
        } else if (active && index == 0 && idle > RLX_PATIENCE_NS && atomic_load(&caller->working) &&
                   rlx_is_stalled(atomic_load(&caller->tid), RLX_LOOK_NS) && atomic_load(&caller->working) &&
                   rlx_give_core(caller)) {
            rlx_settle_mask(seat);
            rlx_pool_sleep(p, atomic_load(&p->gate));
            rlx_avoid(caller->cpu);
            since = rlx_pool_now();
        }
    }
    return NULL;
}

static void rlx_pool_after_fork(void) {
    rlx_pool *p = &rlx_the_pool;
    pthread_mutex_init(&p->lock, NULL);
    atomic_flag_clear(&p->busy);
    atomic_store(&p->active, 0);
    atomic_store(&p->gate, 0);
    atomic_store(&p->waiting, 0);
    atomic_store(&p->sleeping, 0);
    memset(p->seats, 0, sizeof(p->seats));
    p->n_workers = 0;
}

/* Claim the pool for a run on n threads. Returns the threads that the run may
 * use: 1 when the pool is taken or no worker could be started. */
static int rlx_pool_enter(int n) {
    rlx_pool *p = &rlx_the_pool;
    if (n <= 1)
        return 1;
    if (n > RLX_MAX_THREADS)
        n = RLX_MAX_THREADS;
    if (atomic_flag_test_and_set_explicit(&p->busy, memory_order_acquire))
        return 1;
    if (p->n_workers < n) {
        pthread_mutex_lock(&p->lock);
        if (!p->fork_hook) {
            p->fork_hook = 1;
            pthread_atfork(NULL, NULL, rlx_pool_after_fork);
        }
        while (p->n_workers < n) {
            pthread_t thread;
            pthread_attr_t attr;
            pthread_attr_init(&attr);
            pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
            p->seats[p->n_workers + 1].cpu = -1;
            int failed = pthread_create(&thread, &attr, rlx_pool_main, (void *)(intptr_t)p->n_workers);
            pthread_attr_destroy(&attr);
            if (failed)
                break;
            p->n_workers++;
        }
        pthread_mutex_unlock(&p->lock);
    }
    atomic_store(&p->seats[0].tid, rlx_gettid());
    p->fp_mode = rlx_fp_get();
    atomic_fetch_add(&p->active, 1);
    return p->n_workers + 1 < n ? p->n_workers + 1 : n;
}

static void rlx_pool_leave(int granted) {
    rlx_pool *p = &rlx_the_pool;
    if (granted <= 1)
        return;
    rlx_settle_mask(&p->seats[0]);
    atomic_fetch_sub(&p->active, 1);
    atomic_store(&p->seats[0].tid, 0);
    atomic_flag_clear_explicit(&p->busy, memory_order_release);
}

/* Wait for the participants of a closed job. */
static void rlx_pool_wait(rlx_pool *p) {
    int64_t start = rlx_pool_now();
    for (unsigned rounds = 1;; rounds++) {
        if (!(atomic_load_explicit(&p->gate, memory_order_acquire) & RLX_COUNT_MASK))
            return;
        RLX_PAUSE();
        if ((rounds & 15) || rlx_pool_now() - start < RLX_PATIENCE_NS)
            continue;
        for (int i = 1; i <= p->threads; i++) {
            rlx_seat *seat = &p->seats[i];
            uint32_t done = atomic_load(&p->done);
            if (!atomic_load(&seat->working) || !rlx_is_stalled(atomic_load(&seat->tid), RLX_LOOK_NS))
                continue;
            atomic_store(&p->waiting, 1);
            if (atomic_load(&seat->working) && rlx_give_core(seat))
                rlx_futex_wait(&p->done, done, 1000000);
            atomic_store(&p->waiting, 0);
            break;
        }
        start = rlx_pool_now();
    }
}

/* Run the items [lo, hi) on `threads` threads (the caller is one of them). */
static int rlx_pool_job(const rlx_thunk *t, const rlx_frame *f, int threads, int64_t lo, int64_t hi) {
    rlx_pool *p = &rlx_the_pool;
    rlx_seat *seat = &p->seats[0];
    int64_t grain = t->grain > 0 ? t->grain : 1, looked = rlx_pool_now();
    int64_t pieces = (hi - lo + grain - 1) / grain;
    if (threads <= 1 || pieces <= 1)
        return t->fn(t, f, lo, hi);
    p->first = lo;
    p->end = hi;
    p->thunk = t;
    p->frame = f;
    int64_t pack = pieces / INT32_MAX + 1;
    pieces = (pieces + pack - 1) / pack;
    p->unit = pack * grain;
    /* The last chunks decide how long one thread waits for another: a 64th of the work for two, but not less than
     * a microsecond of it, since to take a chunk moves a line between the caches. */
    int64_t part = t->cost / t->phases, least = pieces * RLX_CHUNK_NS / (part > RLX_CHUNK_NS ? part : RLX_CHUNK_NS);
    int64_t finest = (pieces + threads * 32 - 1) / (threads * 32), coarsest = (pieces + threads * 8 - 1) / (threads * 8);
    p->least = (uint32_t)(least < finest ? finest : least < coarsest ? least : coarsest);
    p->threads = threads;
    atomic_store_explicit(&p->range, (uint64_t)pieces << 32, memory_order_relaxed);
    atomic_store_explicit(&p->status, 0, memory_order_relaxed);
    atomic_store_explicit(&p->room, threads - 1, memory_order_relaxed);
    seat->cpu = sched_getcpu();
    atomic_store_explicit(&seat->working, 1, memory_order_relaxed);
    uint64_t epoch = (atomic_load_explicit(&p->gate, memory_order_relaxed) >> 16) + 1;
    atomic_store(&p->gate, epoch << 16 | RLX_OPEN_BIT);
    rlx_pool_ring(p, threads - 1 - (p->n_workers - atomic_load(&p->sleeping)));
    rlx_pool_work(p, t, f, &looked);
    uint64_t gate = atomic_fetch_and_explicit(&p->gate, ~RLX_OPEN_BIT, memory_order_acq_rel);
    atomic_store(&seat->working, 0);
    if (gate & RLX_COUNT_MASK)
        rlx_pool_wait(p);
    rlx_take_mask(seat, -1);
    return atomic_load(&p->status);
}

/* Run one thunk on `threads` threads, phase by phase. */
static int rlx_pool_run(const rlx_thunk *t, const rlx_frame *f, int threads) {
    int64_t part = t->extent / t->phases;
    for (int64_t lo = 0; lo < t->extent; lo += part) {
        int status = rlx_pool_job(t, f, threads, lo, lo + part);
        if (status)
            return status;
    }
    return RLX_OK;
}

#endif
