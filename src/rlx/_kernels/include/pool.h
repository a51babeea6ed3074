/* One process-wide fork-join pool.
 *
 * A job is a thunk; its range is handed out in chunks by an atomic counter, so
 * a slow core does less. The caller works too and never waits for a worker that
 * has not joined: a worker joins by incrementing the participants of a job that
 * is still open, and the caller closes the job before it waits, so a sleeping
 * or preempted worker costs nothing.
 *
 * Workers spin only between rlx_pool_enter and rlx_pool_leave (a run that wants
 * threads), and for at most SPIN_NS after it; then they sleep on a condition
 * variable. One run at a time owns the pool; another that asks meanwhile runs
 * on its own thread alone, with the same bits, because kernels do not depend on
 * the cut. After fork() the child starts without workers and makes its own.
 */
#ifndef RLX_POOL_H
#define RLX_POOL_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>
#include "abi.h"

#define RLX_MAX_THREADS 64
#define RLX_SPIN_ROUNDS 4000

#if defined(__x86_64__) || defined(__i386__)
#define RLX_PAUSE() __builtin_ia32_pause()
#else
#define RLX_PAUSE() __asm__ __volatile__("yield")
#endif

typedef struct rlx_pool {
    pthread_mutex_t lock;      /* guards sleeping and growing */
    pthread_cond_t wake;
    atomic_flag busy;          /* owned by a run */
    _Atomic int64_t active;    /* runs inside enter/leave: workers spin */
    _Atomic uint64_t gate;     /* epoch << 16 | open << 15 | participants */
    int n_workers;
    int sleeping;
    int fork_hook;
    /* the job */
    const rlx_thunk *thunk;
    const rlx_frame *frame;
    int64_t chunk;
    int limit;                 /* workers with index >= limit stay out */
    _Atomic int64_t next;
    _Atomic int32_t status;
} rlx_pool;

static rlx_pool rlx_the_pool = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER, .busy = ATOMIC_FLAG_INIT};

#define RLX_OPEN_BIT ((uint64_t)1 << 15)
#define RLX_COUNT_MASK (RLX_OPEN_BIT - 1)

/* Take chunks until none is left. A failure keeps the others from starting. */
static void rlx_pool_work(rlx_pool *p, const rlx_thunk *t, const rlx_frame *f, int64_t chunk) {
    for (;;) {
        int64_t lo = atomic_fetch_add_explicit(&p->next, chunk, memory_order_relaxed);
        if (lo >= t->extent)
            return;
        int64_t hi = lo + chunk < t->extent ? lo + chunk : t->extent;
        int status = t->fn(t, f, lo, hi);
        if (status) {
            int32_t none = 0;
            atomic_compare_exchange_strong(&p->status, &none, status);
            atomic_store(&p->next, t->extent);
            return;
        }
    }
}

static void *rlx_pool_main(void *arg) {
    rlx_pool *p = &rlx_the_pool;
    int index = (int)(intptr_t)arg;
    uint64_t seen = 0;
    int rounds = 0;
    unsigned waits = 0;
    for (;;) {
        uint64_t gate = atomic_load_explicit(&p->gate, memory_order_acquire);
        if ((gate & RLX_OPEN_BIT) && (gate >> 16) != seen) {
            if (atomic_compare_exchange_weak_explicit(&p->gate, &gate, gate + 1,
                                                      memory_order_acq_rel, memory_order_relaxed)) {
                seen = gate >> 16;
                if (index < p->limit) {
                    rlx_frame mine = *p->frame;
                    rlx_error error = {0};
                    mine.tid = index + 1;
                    mine.error = &error;
                    rlx_pool_work(p, p->thunk, &mine, p->chunk);
                    if (error.status == 0 && atomic_load(&p->status)) {
                        /* the first failing position wins, whoever met it */
                        pthread_mutex_lock(&p->lock);
                        if (error.value || error.bound || error.position)
                            *p->frame->error = error;
                        pthread_mutex_unlock(&p->lock);
                    }
                }
                atomic_fetch_sub_explicit(&p->gate, 1, memory_order_acq_rel);
            }
            rounds = 0;
            continue;
        }
        if (atomic_load_explicit(&p->active, memory_order_relaxed) == 0 &&
            ++rounds > RLX_SPIN_ROUNDS) {
            pthread_mutex_lock(&p->lock);
            p->sleeping++;
            while (atomic_load(&p->active) == 0)
                pthread_cond_wait(&p->wake, &p->lock);
            p->sleeping--;
            pthread_mutex_unlock(&p->lock);
            rounds = 0;
            continue;
        }
        if (++waits & 1023)
            RLX_PAUSE();
        else
            sched_yield();
    }
    return NULL;
}

static void rlx_pool_after_fork(void) {
    rlx_pool *p = &rlx_the_pool;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    atomic_flag_clear(&p->busy);
    atomic_store(&p->active, 0);
    atomic_store(&p->gate, 0);
    p->n_workers = 0;
    p->sleeping = 0;
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
    pthread_mutex_lock(&p->lock);
    if (!p->fork_hook) {
        p->fork_hook = 1;
        pthread_atfork(NULL, NULL, rlx_pool_after_fork);
    }
    while (p->n_workers < n - 1) {
        pthread_t thread;
        pthread_attr_t attr;
        pthread_attr_init(&attr);
        pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        int failed = pthread_create(&thread, &attr, rlx_pool_main, (void *)(intptr_t)p->n_workers);
        pthread_attr_destroy(&attr);
        if (failed)
            break;
        p->n_workers++;
    }
    atomic_fetch_add(&p->active, 1);
    if (p->sleeping)
        pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
    return p->n_workers + 1 < n ? p->n_workers + 1 : n;
}

static void rlx_pool_leave(int granted) {
    rlx_pool *p = &rlx_the_pool;
    if (granted <= 1)
        return;
    atomic_fetch_sub(&p->active, 1);
    atomic_flag_clear_explicit(&p->busy, memory_order_release);
}

/* Run one thunk on `threads` threads (the caller is one of them). */
static int rlx_pool_run(const rlx_thunk *t, const rlx_frame *f, int threads) {
    rlx_pool *p = &rlx_the_pool;
    int64_t grain = t->grain > 0 ? t->grain : 1;
    int64_t pieces = (t->extent + grain - 1) / grain;
    if (threads <= 1 || pieces <= 1)
        return t->fn(t, f, 0, t->extent);
    int64_t per = (pieces + threads * 4 - 1) / (threads * 4);
    p->thunk = t;
    p->frame = f;
    p->chunk = per * grain;
    p->limit = threads - 1;
    atomic_store_explicit(&p->next, 0, memory_order_relaxed);
    atomic_store_explicit(&p->status, 0, memory_order_relaxed);
    uint64_t epoch = (atomic_load_explicit(&p->gate, memory_order_relaxed) >> 16) + 1;
    atomic_store_explicit(&p->gate, epoch << 16 | RLX_OPEN_BIT, memory_order_release);
    rlx_pool_work(p, t, f, p->chunk);
    atomic_fetch_and_explicit(&p->gate, ~RLX_OPEN_BIT, memory_order_acq_rel);
    /* A participant that lost its processor must get one: after a while, yield. */
    for (int rounds = 0; atomic_load_explicit(&p->gate, memory_order_acquire) & RLX_COUNT_MASK;) {
        if (++rounds < RLX_SPIN_ROUNDS)
            RLX_PAUSE();
        else
            sched_yield();
    }
    return atomic_load(&p->status);
}

#endif
