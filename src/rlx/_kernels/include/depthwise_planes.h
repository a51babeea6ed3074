/* Depthwise convolution of channels-first planes, a vector of them at a time; see conv_depthwise.c. */
#ifndef RLX_DEPTHWISE_PLANES_H
#define RLX_DEPTHWISE_PLANES_H

#include "planes.h"

#define DEPTHWISE_PLANES_LAYOUT CONV_FIRST_HEAD "rows " CONV_TAIL

typedef struct plane_group {
    depthwise_f32 p; /* of the vector of planes: lines of `span` pixels */
    int64_t planes, frame, width, height, plane, plane_out;
} plane_group;

/* The input lines [from, to), each framed by zeros that are there already. */
static void group_lines(const plane_group *g, const float *x, int64_t from, int64_t to, float *lines) {
    enum { BLOCK = 64 };
    vf pixels[BLOCK + VF];
    const int64_t kept = g->width < g->p.in[2] - g->frame ? g->width : g->p.in[2] - g->frame;
    int64_t column = 0;
    float *line = lines + g->frame * VF;
    for (int64_t at = from * g->width, n; at < to * g->width; at += n) {
        n = to * g->width - at < BLOCK ? to * g->width - at : BLOCK;
        if (g->planes == VF)
            vf_from_planes(x + at, g->plane, VF, n, pixels);
        else
            vf_from_planes(x + at, g->plane, g->planes, n, pixels);
        for (int64_t k = 0, run; k < n; k += run) {
            run = g->width - column < n - k ? g->width - column : n - k;
            for (int64_t i = 0; i < run && column + i < kept; i++)
                *(vf *)(line + (column + i) * VF) = pixels[k + i];
            column += run;
            if (column == g->width)
                column = 0, line += g->p.in[2] * VF;
        }
    }
}

/* Output rows [lo, hi) of a group of planes. */
static void group_rows(const plane_group *g, const float *x, const float *w, const float *bias, float *out,
                       float *lines, int64_t lo, int64_t hi) {
    const depthwise_f32 *p = &g->p;
    const int64_t reach = (p->kernel[1] - 1) * p->dilation[1] + 1;
    const int64_t top = lo * p->stride[1] - p->pad[1], bottom = (hi - 1) * p->stride[1] - p->pad[1] + reach;
    const int64_t from = top < 0 ? 0 : top < g->height ? top : g->height;
    const int64_t to = bottom < from ? from : bottom < g->height ? bottom : g->height;
    vf kept[VF + PX_MAX];
    int64_t held = 0;
    group_lines(g, x, from, to, lines);
    tile_f32 tile = {.p = p, .w = w, .bias = bias, .ldc = VF, .hi = {1, 0}};
    out += lo * p->out[2];
    for (int64_t row = lo; row < hi; row++) {
        const int64_t ih = row * p->stride[1] - p->pad[1];
        valid_f32(ih, p->kernel[1], p->dilation[1], g->height, &tile.lo[1], &tile.hi[1]);
        for (int64_t at = 0; at < p->out[2]; at += tile.px) {
            tile.px = rlx_tile_rows(p->out[2], PX_MAX, at);
            tile.x = lines + ((ih - from) * p->in[2] + at * p->stride[2]) * VF;
            tile.c = (float *)(kept + held);
            widths_f32[tile.px](&tile, 0);
            held += tile.px;
            for (; held >= VF; held -= VF, out += VF) {
                vf_to_planes(kept, VF, out, g->plane_out, g->planes);
                for (int64_t k = 0; k < held - VF; k++)
                    kept[k] = kept[VF + k];
            }
        }
    }
    if (held)
        vf_to_planes(kept, held, out, g->plane_out, g->planes);
}

/* An item is a vector of channels of an image. */
static int depthwise_planes(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    struct {
        CONV_FIRST_HEAD_FIELDS;
        int64_t rows;
        CONV_FIRST_TAIL_FIELDS;
    } p;
    CONV_FIRST_READ(p, t->attrs);
    const float *bias = (const float *)RLX_OPT(t, f, 3), *weights = (const float *)RLX_PTR(t, f, 1);
    float *work = (float *)(RLX_PTR(t, f, 4) + f->tid * p.work_stride), *lines = work + p.taps * VF;
    const int64_t groups = (p.groups + VF - 1) / VF;
    plane_group g = {.p = {.groups = VF, .c = 1, .oc = 1, .ldi = VF, .clamp = p.clamp, .lo = p.lo, .hi = p.hi},
                     .frame = p.pad[2], .width = p.in[2], .height = p.in[1], .plane = p.plane_in,
                     .plane_out = p.plane_out};
    for (int i = 0; i < 3; i++) {
        g.p.out[i] = p.out[i], g.p.kernel[i] = p.kernel[i], g.p.stride[i] = p.stride[i];
        g.p.dilation[i] = p.dilation[i], g.p.pad[i] = p.pad[i];
    }
    g.p.in[2] = (p.out[2] - 1) * p.stride[2] + (p.kernel[2] - 1) * p.dilation[2] + 1;
    g.frame = g.frame < g.p.in[2] ? g.frame : g.p.in[2];
    const int64_t under = (p.rows - 1) * p.stride[1] + (p.kernel[1] - 1) * p.dilation[1] + 1;
    memset(lines, 0, (size_t)((under < p.in[1] ? under : p.in[1]) * g.p.in[2] * VF) * sizeof(float));
    for (int64_t i = lo; i < hi; i++) {
        const int64_t channel = i % groups * VF, first = i / groups * p.groups + channel;
        g.planes = p.groups - channel < VF ? p.groups - channel : VF;
        g.p.channels = g.planes;
        for (int64_t k = 0; k < p.taps; k++)
            memcpy(work + k * g.planes, weights + k * p.groups + channel, (size_t)g.planes * sizeof(float));
        const float *x = (const float *)RLX_PTR(t, f, 0) + first * p.plane_in;
        float *out = (float *)RLX_PTR(t, f, 2) + first * p.plane_out;
        for (int64_t row = 0, end; row < p.out[1]; row = end) {
            end = p.out[1] - row < p.rows ? p.out[1] : row + p.rows;
            group_rows(&g, x, work, bias ? bias + channel : NULL, out, lines, row, end);
        }
        if (!p.n_steps)
            continue;
        const rlx_epi_tile tile = {(char *)out, (char *)out, p.plane_out, p.plane_out, sizeof(float), sizeof(float),
                                   g.planes, p.plane_out, first, 1, 0, first * p.plane_out};
        const int status = rlx_epilogue(t, f, p.steps, p.n_steps, &tile);
        if (status)
            return status;
    }
    return RLX_OK;
}

#endif
