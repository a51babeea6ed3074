/* Non-maximum suppression, in two phases around the count that fixes the shape.
 *
 * nms.f32          args boxes f32 [batch][boxes][4], scores f32
 *                       [batch][classes][boxes], max_output i64?, iou f32?,
 *                       score f32?, selected i64 [batch*classes][capacity],
 *                       counts i64 [batch*classes], ws
 *   attrs batch classes boxes capacity center ws
 *   ONNX NonMaxSuppression: boxes in falling order of score (ties: lower index,
 *   NaN never) are kept unless they overlap a kept one by more than iou (0 if
 *   absent); only scores above `score` count, all without it; at most
 *   min(max_output (0 if absent), capacity) per class. center 0: two opposite
 *   corners (y, x, y, x) in any order, 1: (x, y, width, height). Boxes without
 *   area overlap nothing. extent batch*classes; ws: per thread, stride attribute
 *   in bytes >= boxes*8 + capacity*20.
 * nms_compact.i64  args selected, counts, out i64 [total][3], total i64 [1]?
 *   attrs batch classes capacity;  rows (batch, class, box). extent 1. With
 *   `total`, the number of rows, out has [batch*classes*capacity] rows; the rest
 *   is zero. */
#include "abi.h"

typedef struct candidate { float score; int32_t box; } candidate;

static inline int before(const candidate *a, const candidate *b) {
    return a->score > b->score || (a->score == b->score && a->box < b->box);
}
static void sift(candidate *h, int64_t n, int64_t i) {
    const candidate moved = h[i];
    for (int64_t c; (c = 2 * i + 1) < n; i = c) {
        if (c + 1 < n && before(h + c + 1, h + c)) c++;
        if (!before(h + c, &moved)) break;
        h[i] = h[c];
    }
    h[i] = moved;
}

/* Kept boxes, a plane for each number. */
typedef struct kept { float *y0, *x0, *y1, *x1, *area; } kept;

static inline float least(float a, float b) { return a < b ? a : b; }
static inline float most(float a, float b) { return a > b ? a : b; }

static int overlaps(const kept *k, int64_t n, float y0, float x0, float y1, float x1, float area,
                    float iou) {
    for (int64_t i = 0; i < n; i += 32) {
        const int64_t end = n - i < 32 ? n : i + 32;
        int hit = 0;
        for (int64_t j = i; j < end; j++) {
            const float h = least(y1, k->y1[j]) - most(y0, k->y0[j]);
            const float w = least(x1, k->x1[j]) - most(x0, k->x0[j]);
            const float common = most(h, 0) * most(w, 0), all = area + k->area[j] - common;
            hit |= (common > 0) & (area > 0) & (k->area[j] > 0) & (all > 0) & (common / all > iou);
        }
        if (hit) return 1;
    }
    return 0;
}

static int nms(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    const int64_t *a = t->attrs;
    const int64_t classes = a[1], boxes = a[2], capacity = a[3];
    const int64_t *max_output = (const int64_t *)RLX_OPT(t, f, 2);
    const float *iou_operand = (const float *)RLX_OPT(t, f, 3);
    const float *score_operand = (const float *)RLX_OPT(t, f, 4);
    const int64_t wanted = max_output ? *max_output : 0;
    const int64_t limit = wanted < capacity ? (wanted < 0 ? 0 : wanted) : capacity;
    const float iou = iou_operand ? *iou_operand : 0;
    char *ws = RLX_PTR(t, f, 7) + f->tid * a[5];
    candidate *h = (candidate *)ws;
    float *planes = (float *)(ws + boxes * (int64_t)sizeof(candidate));
    const kept k = {planes, planes + capacity, planes + 2 * capacity, planes + 3 * capacity,
                    planes + 4 * capacity};
    for (int64_t item = lo; item < hi; item++) {
        const float *box = (const float *)RLX_PTR(t, f, 0) + item / classes * boxes * 4;
        const float *scores = (const float *)RLX_PTR(t, f, 1) + item * boxes;
        int64_t *out = (int64_t *)RLX_PTR(t, f, 5) + item * capacity, n = 0, found = 0;
        for (int64_t i = 0; i < boxes; i++)
            if (scores[i] == scores[i] && (!score_operand || scores[i] > *score_operand))
                h[n++] = (candidate){scores[i], (int32_t)i};
        for (int64_t i = n / 2; i-- > 0;) sift(h, n, i);
        while (n > 0 && found < limit) {
            const int32_t i = h[0].box;
            h[0] = h[--n];
            sift(h, n, 0);
            const float *p = box + 4 * (int64_t)i;
            float y0, x0, y1, x1;
            if (a[4]) {
                x0 = p[0] - p[2] / 2, x1 = p[0] + p[2] / 2;
                y0 = p[1] - p[3] / 2, y1 = p[1] + p[3] / 2;
            } else {
                y0 = least(p[0], p[2]), y1 = most(p[0], p[2]);
                x0 = least(p[1], p[3]), x1 = most(p[1], p[3]);
            }
            const float area = (y1 - y0) * (x1 - x0);
            if (overlaps(&k, found, y0, x0, y1, x1, area, iou)) continue;
            k.y0[found] = y0, k.x0[found] = x0, k.y1[found] = y1, k.x1[found] = x1;
            k.area[found] = area;
            out[found++] = i;
        }
        ((int64_t *)RLX_PTR(t, f, 6))[item] = found;
    }
    return RLX_OK;
}

static int nms_compact(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    const int64_t *a = t->attrs;
    const int64_t *selected = (const int64_t *)RLX_PTR(t, f, 0);
    const int64_t *counts = (const int64_t *)RLX_PTR(t, f, 1);
    int64_t *out = (int64_t *)RLX_PTR(t, f, 2);
    int64_t total = 0;
    for (int64_t item = 0; lo < hi && item < a[0] * a[1]; item++)
        for (int64_t i = 0; i < counts[item] && i < a[2]; i++, total++, out += 3) {
            out[0] = item / a[1], out[1] = item % a[1];
            out[2] = selected[item * a[2] + i];
        }
    if (lo < hi && RLX_PRESENT(t, 3)) {
        *(int64_t *)RLX_PTR(t, f, 3) = total;
        memset(out, 0, (size_t)(a[0] * a[1] * a[2] - total) * 3 * sizeof(int64_t));
    }
    return RLX_OK;
}

const rlx_kernel_row rlx_rows_detection[] = {
    {"nms.f32", nms, "batch classes boxes capacity center ws", 0},
    {"nms_compact.i64", nms_compact, "batch classes capacity", 0},
    {NULL, NULL, NULL, 0},
};
