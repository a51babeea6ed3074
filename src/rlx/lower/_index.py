# Made by tools/gen_reference.py; do not edit.
"""Which module lowers an op."""

INDEX = {
    "attention": (
        "fused_attention", "rope",
    ),
    "cache": (
        "cache_append",
    ),
    "control": (
        "cond", "loop", "scan",
    ),
    "conv": (
        "conv", "conv_transpose", "conv_nhwc", "conv_transpose_nhwc", "conv_alone", "conv_transpose_alone",
    ),
    "custom": (
        "custom",
    ),
    "fourier": (
        "fourier", "stft_planned", "view_as_real", "view_as_complex",
    ),
    "gemm_nbits": (
        "matmul_nbits", "fused_matmul_nbits",
    ),
    "index": (
        "gather", "gather_elements", "gather_nd", "scatter_elements", "scatter_nd", "one_hot", "search_sorted",
        "nonzero_bounded", "compress_bounded", "lookup",
    ),
    "int8": (
        "int8_matmul", "int8_conv", "int8_conv_nhwc",
    ),
    "linalg": (
        "det", "inverse",
    ),
    "matmul": (
        "matmul", "fused_matmul",
    ),
    "movement": (
        "reshape", "hold", "transpose", "expand", "slice", "concat",
    ),
    "nms": (
        "non_max_suppression_bounded",
    ),
    "norm": (
        "layer_norm", "rms_norm", "add_norm", "group_norm", "batch_norm", "lrn", "moments", "lp_norm",
    ),
    "order": (
        "argmax", "argmin", "cumsum", "cumprod", "cummax", "cummin", "sort", "argsort", "topk", "unique_bounded",
    ),
    "placement": (
        "pad", "tile", "repeat", "flip", "roll", "trilu", "eye", "iota",
    ),
    "pool": (
        "max_pool", "avg_pool", "lp_pool", "max_pool_indices",
    ),
    "random": (
        "random_uniform", "random_normal", "randint", "multinomial", "sample",
    ),
    "reduce": (
        "reduce_sum", "reduce_mean", "reduce_prod", "reduce_max", "reduce_min", "reduce_l1", "reduce_l2",
        "reduce_sum_square", "reduce_log_sum", "reduce_any", "reduce_all",
    ),
    "region": (
        "elementwise", "region",
    ),
    "resize": (
        "resample",
    ),
    "rnn": (
        "lstm", "gru", "rnn", "dynamic_quantize_lstm",
    ),
    "sample": (
        "grid_sample", "roi_align",
    ),
    "softmax": (
        "softmax", "log_softmax", "reduce_log_sum_exp",
    ),
    "tree_ensemble": (
        "tree_ensemble",
    ),
}
