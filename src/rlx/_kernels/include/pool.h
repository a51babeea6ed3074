/* One process-wide fork-join pool.
 *
 * A job is a thunk; its range is cut into one part for each thread. A thread takes chunks from the bottom of its own
 * part, half of what is left at a time, and when that is empty from the top of another's, so a slow core does less
 * and yet a thread meets the same rows and weights from job to job and from run to run, in its own cache. The caller
 * works too and never waits for a worker that has not joined, so a sleeping or preempted worker costs nothing. One
 * that is preempted within a chunk is replaced by a spare worker while there is work, and given the caller's
 * processor when there is none; a caller that is preempted is given a worker's (yield_core.h). So there is a worker
 * more than threads, and scratch for it; no more than `threads` of them run at a time.
 *
 * What changes hands: 290 ns are a round trip of a cache line between two cores here, so a job is told in one line
 * per part (rlx_post), which the caller writes without waiting for it: its first chunk is its own before others may
 * look, and nothing that empties the store buffer stands before it. Whoever joins has the line to himself: to take
 * chunks and to say that it is done stay within its cache unless somebody steals or waits. A post is
 *     OPEN    may be joined; the caller may close it
 *     JOINED  by one worker, which reads the rest of the line now: nobody writes it before DONE
 *     DONE    what the worker did can be seen
 * with the number of the job, so that a worker that slept through jobs joins none that is over. A worker looks at the
 * post of its number all the time, and at the others every 200 ns: which of two workers runs, when others want the
 * processors too, is for the system to say.
 *
 * Workers spin only while a run that wants threads goes on, for IDLE_NS without a job, and for SPIN_NS after the run;
 * then they sleep, each on its own futex. One run at a time owns the pool; another that asks meanwhile runs on its
 * own thread alone, with the same bits, because kernels do not depend on the cut. After fork() the child starts
 * without workers and makes its own.
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
/* Who was displaced while it spun (for at least LOST_NS) spins no longer than this for some time: kernels let who is
 * woken run at once, but who has been displaced wait for milliseconds, and spinning uses up its share. */
#define RLX_LOST_NS 50000
#define RLX_CROWDED_NS 20000
#define RLX_CROWDED_FOR_NS 20000000
#define RLX_SURVEY_NS 40000
/* Below this wait a look at the other's clock would cost more than it can save. */
#define RLX_PATIENCE_NS 15000
#define RLX_LOOK_NS 6000
#define RLX_GIVEN_NS 1000000
#define RLX_CHUNK_NS 1000
#define RLX_WORKER_NAME "rlx worker" /* for lists of threads */
/* What a worker has to fetch before it starts; its part is smaller by as much. */
#define RLX_START_NS 500

enum { RLX_CLOSED, RLX_OPEN, RLX_JOINED, RLX_DONE, RLX_STATES };

/* A job as one participant sees it; its neighbour line is nobody's, for processors fetch lines in pairs. */
typedef struct rlx_post {
    _Alignas(128) _Atomic uint64_t gate; /* number of the job * RLX_STATES + state */
    _Atomic uint64_t range;    /* units left of this part: first | end << 32 */
    const rlx_thunk *_Atomic thunk;
    const rlx_frame *_Atomic frame; /* the caller's */
    int64_t first, end;        /* items of the job */
    int64_t unit;              /* what is handed out, a multiple of the grain */
    uint32_t least;            /* units of the smallest chunk */
    int16_t parts;             /* posts of the job, with those of spares */
    _Atomic int16_t who;       /* has joined; 0: not known yet */
} rlx_post;

/* What became of a part. */
typedef struct rlx_outcome {
    _Alignas(64) int32_t status;
    rlx_error error;
} rlx_outcome;

typedef struct rlx_pool {
    pthread_mutex_t lock;      /* guards growing */
    int n_workers;
    int fork_hook;
    cpu_set_t allowed;         /* processors that workers were made for */
    unsigned fp_mode;          /* of the run */
    _Atomic int32_t threads;   /* participants of the job, the caller among them */
    int missing;               /* somebody who was awake did not come to the last job */
    uint64_t job;              /* its number */
    int64_t jobs, helped;      /* of the run; those in which a worker took part */
    _Alignas(128) _Atomic int32_t busy; /* owned by a run: workers spin */
    _Alignas(128) _Atomic int32_t failed; /* stop */
    rlx_post posts[RLX_MAX_THREADS + 1]; /* 0: the caller's part */
    rlx_outcome outcomes[RLX_MAX_THREADS + 1]; /* of the same */
    rlx_seat seats[RLX_MAX_THREADS + 1]; /* 0: the caller; others: workers */
} rlx_pool;

static rlx_pool rlx_the_pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* -- parts ------------------------------------------------------------------- */

static inline uint64_t rlx_units(uint32_t first, uint32_t end) { return (uint64_t)end << 32 | first; }

/* Take from the bottom of one's own part (`own`) or from the top of another's: units [*lo, *hi). */
static inline int rlx_pool_take(rlx_post *post, uint32_t least, int own, uint32_t *lo, uint32_t *hi) {
    uint64_t range = atomic_load_explicit(&post->range, memory_order_relaxed), rest;
    do {
        uint32_t first = (uint32_t)range, end = (uint32_t)(range >> 32), left = end - first, take = (left + 1) / 2;
        if (end <= first)
            return 0;
        take = take < least ? least < left ? least : left : take;
        *lo = own ? first : end - take;
        *hi = *lo + take;
        rest = own ? rlx_units(*hi, end) : rlx_units(first, *lo);
    } while (!atomic_compare_exchange_weak_explicit(&post->range, &range, rest, memory_order_relaxed,
                                                    memory_order_relaxed));
    return 1;
}

/* A failure keeps all from starting more. */
static void rlx_pool_stop(rlx_pool *p, int parts) {
    atomic_store(&p->failed, 1);
    for (int i = 0; i < parts; i++)
        atomic_store_explicit(&p->posts[i].range, 0, memory_order_relaxed);
}

static inline int rlx_pool_chunk(const rlx_post *job, const rlx_frame *f, uint32_t lo, uint32_t hi) {
    const rlx_thunk *t = atomic_load_explicit(&job->thunk, memory_order_relaxed);
    int64_t end = job->first + hi * job->unit;
    return t->fn(t, f, job->first + lo * job->unit, end < job->end ? end : job->end);
}

static void rlx_pool_survey(rlx_pool *p, int64_t *looked);

/* Work until no part has anything left; `looked`: the caller, which looks at the others meanwhile. */
static int rlx_pool_work(rlx_pool *p, const rlx_post *job, const rlx_frame *f, int64_t *looked) {
    uint32_t lo, hi;
    int parts = job->parts, self = (int)(job - p->posts);
    for (int k = 0; k < parts;) {
        int at = self + k < parts ? self + k : self + k - parts;
        if (!rlx_pool_take(&p->posts[at], job->least, k == 0, &lo, &hi)) {
            k++;
            continue;
        }
        int status = rlx_pool_chunk(job, f, lo, hi);
        if (status) {
            rlx_pool_stop(p, parts);
            return status;
        }
        if (looked)
            rlx_pool_survey(p, looked);
    }
    return RLX_OK;
}

/* -- workers ----------------------------------------------------------------- */

/* A worker's part of a job; it has joined. */
static void rlx_pool_join(rlx_pool *p, rlx_post *post, rlx_seat *seat, int self, uint64_t gate) {
    rlx_frame mine = *atomic_load_explicit(&post->frame, memory_order_relaxed);
    rlx_outcome *outcome = &p->outcomes[post - p->posts];
    memset(&outcome->error, 0, sizeof(outcome->error));
    mine.tid = self;
    mine.error = &outcome->error;
    rlx_fp_set(p->fp_mode);
    rlx_note_cpu(seat);
    atomic_store_explicit(&seat->working, 1, memory_order_relaxed);
    atomic_store_explicit(&post->who, (int16_t)self, memory_order_release);
    outcome->status = rlx_pool_work(p, post, &mine, NULL);
    atomic_store_explicit(&seat->working, 0, memory_order_relaxed);
    atomic_store_explicit(&post->gate, gate - RLX_OPEN + RLX_DONE, memory_order_release);
}

/* The number of a post that may be joined, or 0. */
static inline int rlx_pool_find(rlx_pool *p, int self) {
    int threads = atomic_load_explicit(&p->threads, memory_order_relaxed);
    for (int i = 1; i <= threads && self <= threads; i++)
        if (atomic_load(&p->posts[i].gate) % RLX_STATES == RLX_OPEN)
            return i;
    return 0;
}

static void rlx_pool_sleep(rlx_pool *p, rlx_seat *seat, int self) {
    atomic_store(&seat->sleeping, 1);
    /* who opens a post looks at `sleeping` afterwards */
    while (!rlx_pool_find(p, self) && atomic_load(&seat->sleeping))
        rlx_futex_wait(&seat->sleeping, 1, -1);
    atomic_store(&seat->sleeping, 0);
}

static void *rlx_pool_main(void *arg) {
    rlx_pool *p = &rlx_the_pool;
    int self = (int)(intptr_t)arg;
    rlx_seat *seat = &p->seats[self], *caller = &p->seats[0];
    int64_t since = rlx_pool_now(), idle_limit = RLX_IDLE_NS, looked = since, crowded = since;
    unsigned rounds = 0;
    int which = self;
    atomic_store(&seat->tid, rlx_gettid());
    prctl(PR_SET_NAME, RLX_WORKER_NAME);
    for (;;) {
        rlx_post *post = &p->posts[which];
        uint64_t gate = atomic_load_explicit(&post->gate, memory_order_relaxed);
        which = self;
        if (gate % RLX_STATES == RLX_OPEN) {
            /* on their way while the line changes hands; they may be of another job */
            const char *frame = (const char *)atomic_load_explicit(&post->frame, memory_order_relaxed);
            __builtin_prefetch(frame);
            __builtin_prefetch(frame + sizeof(rlx_frame) - 1);
            __builtin_prefetch(atomic_load_explicit(&post->thunk, memory_order_relaxed));
            if (atomic_compare_exchange_strong_explicit(&post->gate, &gate, gate - RLX_OPEN + RLX_JOINED,
                                                        memory_order_acquire, memory_order_relaxed)) {
                rlx_pool_join(p, post, seat, self, gate);
                if (atomic_load(&seat->moved)) /* this is the caller's processor */
                    rlx_pool_sleep(p, seat, self);
                since = looked = rlx_pool_now();
                idle_limit = RLX_IDLE_NS;
            }
            continue;
        }
        RLX_PAUSE();
        if (++rounds & 15)
            continue;
        if ((which = rlx_pool_find(p, self)))
            continue;
        which = self;
        rlx_take_mask(seat, atomic_load_explicit(&seat->cpu, memory_order_relaxed));
        rlx_note_cpu(seat);
        int64_t now = rlx_pool_now(), idle = now - since;
        if (now - looked > RLX_LOST_NS)
            crowded = now + RLX_CROWDED_FOR_NS;
        looked = now;
        if (idle < RLX_PATIENCE_NS)
            continue;
        int active = atomic_load_explicit(&p->busy, memory_order_relaxed);
        if (idle > (now < crowded ? RLX_CROWDED_NS : active ? idle_limit : RLX_SPIN_NS)) {
            rlx_settle_mask(seat);
            rlx_pool_sleep(p, seat, self);
            since = looked = rlx_pool_now();
            idle_limit = RLX_SPARE_NS; /* until it is let in, it is a spare */
        } else if (active && self == 1 && atomic_load(&caller->working) &&
                   rlx_is_stalled(atomic_load(&caller->tid), RLX_LOOK_NS) && atomic_load(&caller->working) &&
                   rlx_give_core(caller, NULL)) {
            rlx_settle_mask(seat);
            rlx_pool_sleep(p, seat, self);
            since = looked = rlx_pool_now();
        }
    }
    return NULL;
}

/* -- the caller -------------------------------------------------------------- */

/* See to it that as many workers are awake as a job wants, on other processors than the caller's: one that shares it
 * would wait for the caller to end, and kernels wake threads there where no other processor is idle, as when another
 * library's threads spin. Returns how many had to be woken. */
static inline int rlx_pool_rouse(rlx_pool *p, int wanted, int cpu) {
    int last = wanted + 1 < p->n_workers ? wanted + 1 : p->n_workers, woken = 0;
    for (int i = 1; i <= last; i++) {
        rlx_seat *seat = &p->seats[i];
        int awake = !atomic_load_explicit(&seat->sleeping, memory_order_relaxed);
        wanted -= awake;
        if (awake && atomic_load_explicit(&seat->cpu, memory_order_relaxed) == cpu)
            rlx_keep_off(seat, &p->allowed, cpu);
    }
    for (int i = 1; i <= last && wanted > 0; i++) {
        rlx_seat *seat = &p->seats[i];
        if (!atomic_load(&seat->sleeping))
            continue;
        rlx_keep_off(seat, &p->allowed, cpu);
        if (atomic_exchange(&seat->sleeping, 0))
            rlx_futex_wake(&seat->sleeping, 1);
        wanted--;
        woken++;
    }
    return woken;
}

/* Tell a worker of the caller's job, and which units are its part. */
static inline void rlx_pool_tell(rlx_pool *p, rlx_post *post, uint64_t range) {
    const rlx_post *mine = &p->posts[0];
    atomic_store_explicit(&post->thunk, atomic_load_explicit(&mine->thunk, memory_order_relaxed), memory_order_relaxed);
    atomic_store_explicit(&post->frame, atomic_load_explicit(&mine->frame, memory_order_relaxed), memory_order_relaxed);
    post->first = mine->first;
    post->end = mine->end;
    post->unit = mine->unit;
    post->least = mine->least;
    post->parts = mine->parts;
    atomic_store_explicit(&post->who, 0, memory_order_relaxed);
    atomic_store_explicit(&post->range, range, memory_order_relaxed);
    atomic_store_explicit(&post->gate, p->job * RLX_STATES + RLX_OPEN, memory_order_release);
}

/* Let a spare worker in for every participant that has lost its processor. */
static void rlx_pool_survey(rlx_pool *p, int64_t *looked) {
    int64_t now = rlx_pool_now(), passed = now - *looked;
    rlx_post *mine = &p->posts[0];
    int threads = atomic_load_explicit(&p->threads, memory_order_relaxed), running = 0;
    if (passed < RLX_SURVEY_NS || mine->parts > threads || mine->parts > p->n_workers)
        return;
    for (int i = 1; i <= threads; i++) {
        rlx_seat *seat = &p->seats[i];
        if (!atomic_load_explicit(&seat->working, memory_order_acquire)) {
            seat->used = 0;
            continue;
        }
        int64_t used = rlx_cpu_time(atomic_load(&seat->tid));
        running += !seat->used || used - seat->used >= passed / 8;
        seat->used = used;
    }
    *looked = now;
    if (running >= threads - 1)
        return;
    rlx_pool_tell(p, &p->posts[mine->parts++], 0); /* it steals */
    atomic_thread_fence(memory_order_seq_cst);
    rlx_pool_rouse(p, threads, atomic_load_explicit(&p->seats[0].cpu, memory_order_relaxed));
}

/* Wait for a worker that has joined. */
static void rlx_pool_wait(rlx_pool *p, int which) {
    rlx_post *post = &p->posts[which];
    int64_t start = 0;
    for (unsigned rounds = 1;; rounds++) {
        if (atomic_load_explicit(&post->gate, memory_order_acquire) % RLX_STATES != RLX_JOINED)
            return;
        RLX_PAUSE();
        if (rounds & 15)
            continue;
        int64_t now = rlx_pool_now();
        start = start ? start : now;
        if (now - start < RLX_PATIENCE_NS)
            continue;
        rlx_seat *seat = &p->seats[atomic_load(&post->who)]; /* 0, the caller's, is not working */
        if (atomic_load(&seat->working) && rlx_is_stalled(atomic_load(&seat->tid), RLX_LOOK_NS) &&
            rlx_give_core(seat, &p->allowed)) {
            /* It has this processor until it is done, and sleeps then. */
            for (int64_t until = rlx_pool_now() + RLX_GIVEN_NS; rlx_pool_now() < until;) {
                if (atomic_load_explicit(&post->gate, memory_order_acquire) % RLX_STATES != RLX_JOINED)
                    break;
                sched_yield();
            }
            rlx_keep_off(seat, &p->allowed, sched_getcpu());
        }
        start = rlx_pool_now();
    }
}

/* Run the items [lo, hi) on `threads` threads (the caller is one of them). */
static int rlx_pool_job(const rlx_thunk *t, const rlx_frame *f, int threads, int64_t lo, int64_t hi) {
    rlx_pool *p = &rlx_the_pool;
    rlx_seat *seat = &p->seats[0];
    rlx_post *mine = &p->posts[0];
    int64_t grain = t->grain > 0 ? t->grain : 1, pieces = (hi - lo + grain - 1) / grain;
    if (threads <= 1 || pieces <= 1)
        return t->fn(t, f, lo, hi);
    int64_t pack = pieces / INT32_MAX + 1, part = t->cost / t->phases, at = 0, looked = 0;
    pieces = (pieces + pack - 1) / pack;
    threads = threads < pieces ? threads : (int)pieces;
    /* The last chunks decide how long one thread waits for another: a 64th of the work for two, but not less than
     * a microsecond of it, since to steal moves a line between the caches. */
    int64_t least = pieces * RLX_CHUNK_NS / (part > RLX_CHUNK_NS ? part : RLX_CHUNK_NS);
    int64_t finest = (pieces + threads * 32 - 1) / (threads * 32), coarsest = (pieces + threads * 8 - 1) / (threads * 8);
    int64_t late = pieces * RLX_START_NS / (part > RLX_START_NS ? part : RLX_START_NS) / threads;
    int cpu = sched_getcpu();
    atomic_store_explicit(&mine->thunk, t, memory_order_relaxed);
    atomic_store_explicit(&mine->frame, f, memory_order_relaxed);
    mine->first = lo;
    mine->end = hi;
    mine->unit = pack * grain;
    mine->least = (uint32_t)(least < finest ? finest : least < coarsest ? least : coarsest);
    mine->parts = (int16_t)threads;
    if (atomic_load_explicit(&p->threads, memory_order_relaxed) != threads)
        atomic_store_explicit(&p->threads, threads, memory_order_relaxed);
    p->job++;
    p->jobs++;
    if (part > RLX_SURVEY_NS)
        looked = rlx_pool_now();
    /* the caller's part is the first */
    int64_t own = (pieces + threads - 1) / threads + (pieces < 8 * threads ? 0 : late), mark;
    own = own < pieces ? own : pieces;
    mark = (own + 1) / 2;
    mark = mark > mine->least ? mark : mine->least < own ? mine->least : own;
    atomic_store_explicit(&mine->range, rlx_units((uint32_t)mark, (uint32_t)own), memory_order_relaxed);
    atomic_store_explicit(&seat->cpu, cpu, memory_order_relaxed);
    atomic_store_explicit(&seat->working, 1, memory_order_relaxed);
    at = own;
    for (int i = 1; i < threads; i++) {
        int64_t next = at + (pieces - at) / (threads - i);
        rlx_pool_tell(p, &p->posts[i], rlx_units((uint32_t)at, (uint32_t)next));
        at = next;
    }
    /* Somebody who did not come to the last job has no processor. Kernels let who is woken run at once, but who has
     * been displaced wait for milliseconds: so another one is woken. */
    int woken = rlx_pool_rouse(p, threads - 1 + p->missing, cpu);
    int status = rlx_pool_chunk(mine, f, 0, (uint32_t)mark);
    if (status)
        rlx_pool_stop(p, threads);
    else {
        atomic_thread_fence(memory_order_seq_cst);
        woken += rlx_pool_rouse(p, threads - 1, cpu); /* who fell asleep while the post was on its way */
        status = rlx_pool_work(p, mine, f, looked ? &looked : NULL);
    }
    atomic_store_explicit(&seat->working, 0, memory_order_relaxed);
    int came = 0;
    for (int i = 1; i < mine->parts; i++) {
        uint64_t gate = atomic_load_explicit(&p->posts[i].gate, memory_order_acquire);
        if (gate % RLX_STATES == RLX_OPEN &&
            atomic_compare_exchange_strong(&p->posts[i].gate, &gate, gate - RLX_OPEN + RLX_CLOSED))
            continue;
        came++;
        if (gate % RLX_STATES == RLX_JOINED)
            rlx_pool_wait(p, i);
    }
    p->helped += came > 0;
    p->missing = came < threads - 1 && !woken;
    rlx_take_mask(seat, -1);
    if (atomic_load_explicit(&p->failed, memory_order_relaxed)) {
        /* of several failures the one of the first part is told */
        atomic_store(&p->failed, 0);
        for (int i = 1; i < mine->parts && !status; i++) {
            uint64_t gate = atomic_load_explicit(&p->posts[i].gate, memory_order_relaxed);
            if (gate == p->job * RLX_STATES + RLX_DONE && (status = p->outcomes[i].status))
                *f->error = p->outcomes[i].error;
        }
    }
    return status;
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

/* -- runs -------------------------------------------------------------------- */

static void rlx_pool_after_fork(void) {
    rlx_pool *p = &rlx_the_pool;
    pthread_mutex_init(&p->lock, NULL);
    atomic_store(&p->busy, 0);
    atomic_store(&p->failed, 0);
    for (int i = 0; i <= RLX_MAX_THREADS; i++)
        atomic_store(&p->posts[i].gate, 0);
    memset(p->seats, 0, sizeof(p->seats));
    p->n_workers = 0;
    rlx_tid = 0;
}

static void rlx_pool_grow(rlx_pool *p, int n) {
    pthread_mutex_lock(&p->lock);
    if (!p->fork_hook) {
        p->fork_hook = 1;
        pthread_atfork(NULL, NULL, rlx_pool_after_fork);
    }
    if (!p->n_workers && sched_getaffinity(0, sizeof(p->allowed), &p->allowed))
        CPU_ZERO(&p->allowed);
    while (p->n_workers < n) {
        pthread_t thread;
        pthread_attr_t attr;
        rlx_seat *seat = &p->seats[p->n_workers + 1];
        pthread_attr_init(&attr);
        pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        atomic_store(&seat->cpu, -1);
        atomic_store(&seat->avoids, -1);
        int failed = pthread_create(&thread, &attr, rlx_pool_main, (void *)(intptr_t)(p->n_workers + 1));
        pthread_attr_destroy(&attr);
        if (failed)
            break;
        p->n_workers++;
    }
    pthread_mutex_unlock(&p->lock);
}

/* Claim the pool for a run on n threads. Returns the threads that the run may
 * use: 1 when the pool is taken or no worker could be started. */
static int rlx_pool_enter(int n) {
    rlx_pool *p = &rlx_the_pool;
    if (n <= 1)
        return 1;
    if (n > RLX_MAX_THREADS)
        n = RLX_MAX_THREADS;
    if (atomic_load_explicit(&p->busy, memory_order_relaxed) || atomic_exchange(&p->busy, 1))
        return 1;
    if (p->n_workers < n)
        rlx_pool_grow(p, n);
    atomic_store_explicit(&p->seats[0].tid, rlx_own_tid(), memory_order_release);
    p->fp_mode = rlx_fp_get();
    p->jobs = p->helped = 0;
    return p->n_workers + 1 < n ? p->n_workers + 1 : n;
}

/* Returns whether workers took part in most jobs: one that has just been made may wait for its first slice of time. */
static int rlx_pool_leave(int granted) {
    rlx_pool *p = &rlx_the_pool;
    if (granted <= 1)
        return 0;
    int helped = 4 * p->helped >= 3 * p->jobs;
    rlx_settle_mask(&p->seats[0]);
    atomic_store_explicit(&p->seats[0].tid, 0, memory_order_relaxed);
    atomic_store_explicit(&p->busy, 0, memory_order_release);
    return helped;
}

#endif
