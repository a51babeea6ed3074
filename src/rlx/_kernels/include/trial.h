/* Which thunks of a short program deserve a second thread: programs find out.
 *
 * No estimate tells it: 12 us may be 6, and what one thread wrote must travel to the other. So the runs of a program
 * take turns with RLX_SPLITS multiples of the work that is worth a hand-over (0: one thread for everything), and the
 * fastest stays, if the second thread saves enough.
 *
 * Turns are blocks of runs. The first run of a block does not count: what the others read and wrote lies in the caches
 * of other processors (weights of 2 MB are in neither second cache after one run by turns: 59 us instead of 15). The
 * second fastest of a block is its time, the lesser of two blocks that of a choice.
 *
 * Runs in which the workers did not come, because they have just been made or others keep them from their processor,
 * tell nothing about two threads, and are left out while there are not too many. What else the machine does changes, so a trial of one block each is repeated, after twice as many runs each time
 * that it finds the same.
 */
#ifndef RLX_TRIAL_H
#define RLX_TRIAL_H

#include <stdint.h>

enum { RLX_SPLITS = 3, RLX_BLOCK = 5, RLX_BLOCKS = 2, RLX_AGAIN = 500, RLX_SELDOM = 32000, RLX_MISSES = 200 };

static const int64_t rlx_split_by[RLX_SPLITS] = {1, 3, 0};
/* What a second thread must save, as a part of the time. */
#define RLX_WORTH 0.04

typedef struct rlx_trial {
    int64_t fastest[RLX_SPLITS];
    int64_t took[2];   /* fastest runs of this block */
    int32_t choice;    /* of rlx_split_by, when no trial is on */
    int32_t choices;   /* bit c: choice c differs from the others */
    int32_t turn;      /* runs of the trial so far; -1: none is on */
    int32_t turns;     /* after which it ends */
    int32_t wait;      /* runs until the next trial; 0: there will be none */
    int32_t period;
    int32_t missed;    /* runs of the trial that did not count */
} rlx_trial;

static inline void rlx_trial_begin(rlx_trial *t, int32_t blocks) {
    int many = 0;
    for (int c = 0; c < RLX_SPLITS; c++) {
        t->fastest[c] = INT64_MAX;
        many += t->choices >> c & 1;
    }
    t->turn = t->missed = 0;
    t->turns = blocks * many * RLX_BLOCK;
}

/* A program whose thunks are split by all multiples whose bit is set in `choices`. */
static inline void rlx_trial_init(rlx_trial *t, int32_t choices) {
    t->choice = 0;
    t->choices = choices;
    t->period = RLX_AGAIN / 2;
    rlx_trial_begin(t, RLX_BLOCKS);
}

/* The choice whose turn it is. */
static inline int rlx_trial_now(const rlx_trial *t) {
    int c = 0, skip = 0;
    if (t->turn < 0)
        return t->choice;
    for (int k = 0; k < RLX_SPLITS; k++)
        skip += t->choices >> k & 1;
    skip = t->turn / RLX_BLOCK % skip;
    while (!(t->choices >> c & 1) || skip--)
        c++;
    return c;
}

/* A run of a choice took so many nanoseconds; `fair`: other threads took part as far as they should. */
static inline void rlx_trial_learn(rlx_trial *t, int choice, int64_t took, int fair) {
    if (!fair && t->missed++ < RLX_MISSES)
        return;
    int at = t->turn % RLX_BLOCK, last = RLX_SPLITS - 1, best = last;
    if (at == 0)
        t->took[0] = t->took[1] = INT64_MAX;
    else if (took < t->took[0])
        t->took[1] = t->took[0], t->took[0] = took;
    else if (took < t->took[1])
        t->took[1] = took;
    t->turn++;
    if (at == RLX_BLOCK - 1 && t->took[1] < t->fastest[choice])
        t->fastest[choice] = t->took[1];
    if (t->turn < t->turns)
        return;
    for (int c = 0; c < last; c++)
        if ((double)t->fastest[c] < (1 - RLX_WORTH) * (double)t->fastest[last] &&
            (best == last || t->fastest[c] < t->fastest[best]))
            best = c;
    t->period = best != t->choice ? RLX_AGAIN : t->period < RLX_SELDOM ? 2 * t->period : RLX_SELDOM;
    t->wait = t->period;
    t->choice = best;
    t->turn = -1;
}

/* A run with the choice that stays; begins the next trial when it is time. */
static inline void rlx_trial_pass(rlx_trial *t) {
    if (--t->wait == 0)
        rlx_trial_begin(t, 1);
}

#endif
