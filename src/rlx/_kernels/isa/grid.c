/* grid: images read at points that data name.
 *
 * grid_sample.T  args: x, grid, out
 *                attrs: channels points mode padding align in:*
 *                extent: batch * points
 *   x [batch, channels, in...] (1 to 3 axes), grid [batch, points, rank] with
 *   coordinates in [-1, 1], the last axis first, out [batch, channels, points].
 *   mode 0 nearest (half to even), 1 linear, 2 cubic (a = -0.75). padding 0
 *   zeros, 1 border, 2 reflection. align: -1 and 1 are the centres of the corner
 *   elements, else their outer edges. A coordinate outside is first clamped or
 *   reflected, then its neighbours are. A NaN coordinate gives NaN.
 * roi_align.T    args: x, rois, items (i64), out
 *                attrs: batch channels height width bins_y bins_x sampling maximum
 *                       scale:f shift:f
 *                extent: rois * bins_y
 *   x [batch, channels, height, width], rois [n, 4] as x1 y1 x2 y2, items [n] the
 *   batch entry of each (checked), out [n, channels, bins_y, bins_x]. Each bin is
 *   the mean, or maximum, over sampling^2 points (0: as many as its size in
 *   pixels). The maximum is that of the four products of weight and neighbour,
 *   as ONNX has it. Points outside count as 0.
 * T in f32, f64.
 *
 * grid_sample makes places and weights of CHUNK points at a time, an axis at a
 * time, and then goes over the channels, so that the arithmetic of a point is
 * done once; all loops run along the points, without branches. A plane has less
 * than 2^31 elements (the lowering sees to it).
 */
#include <math.h>

#include "abi.h"
#include "vec.h"

enum { NEAREST, LINEAR, CUBIC };
enum { ZEROS, BORDER, REFLECTION };
#define CHUNK 32
#define MAX_TAPS 64
#define MAX_SAMPLES 100000

#define T float
#define FN(name) name##_f32
#define FLOOR floorf
#define RINT rintf
#include "grid.inc"
#undef T
#undef FN
#undef FLOOR
#undef RINT
#define T double
#define FN(name) name##_f64
#define FLOOR floor
#define RINT rint
#include "grid.inc"

#define ROWS(TN)                                                                            \
    {"grid_sample." #TN, grid_sample_##TN, "channels points mode padding align in:*", 0},   \
    {"roi_align." #TN, roi_align_##TN,                                                      \
     "batch channels height width bins_y bins_x sampling maximum scale:f shift:f", 0}

const rlx_kernel_row rlx_rows_grid[] = {
    ROWS(f32),
    ROWS(f64),
    {NULL, NULL, NULL, 0},
};
