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
        "conv", "conv_alone", "conv_nhwc", "conv_transpose", "conv_transpose_alone", "conv_transpose_nhwc",
    ),
    "custom": (
        "custom",
    ),
    "fourier": (
        "fourier", "stft_planned", "view_as_complex", "view_as_real",
    ),
    "gemm_nbits": (
        "fused_matmul_nbits", "matmul_nbits",
    ),
    "index": (
        "compress_bounded", "gather", "gather_elements", "gather_nd", "lookup", "nonzero_bounded", "one_hot",
        "scatter_elements", "scatter_nd", "search_sorted",
    ),
    "int8": (
        "int8_conv", "int8_conv_nhwc", "int8_matmul",
    ),
    "linalg": (
        "det", "inverse",
    ),
    "matmul": (
        "fused_matmul", "matmul",
    ),
    "movement": (
        "concat", "expand", "hold", "reshape", "slice", "transpose",
    ),
    "nms": (
        "non_max_suppression_bounded",
    ),
    "norm": (
        "add_norm", "batch_norm", "group_norm", "layer_norm", "lp_norm", "lrn", "moments", "rms_norm",
    ),
    "order": (
        "argmax", "argmin", "argsort", "cummax", "cummin", "cumprod", "cumsum", "sort", "topk", "unique_bounded",
    ),
    "placement": (
        "eye", "flip", "iota", "pad", "repeat", "roll", "tile", "trilu",
    ),
    "pool": (
        "avg_pool", "lp_pool", "max_pool", "max_pool_indices",
    ),
    "random": (
        "multinomial", "randint", "random_normal", "random_uniform", "sample",
    ),
    "reduce": (
        "reduce_all", "reduce_any", "reduce_l1", "reduce_l2", "reduce_log_sum", "reduce_max", "reduce_mean",
        "reduce_min", "reduce_prod", "reduce_sum", "reduce_sum_square",
    ),
    "region": (
        "elementwise", "region",
    ),
    "resize": (
        "resample",
    ),
    "rnn": (
        "dynamic_quantize_lstm", "gru", "lstm", "rnn",
    ),
    "sample": (
        "grid_sample", "roi_align",
    ),
    "softmax": (
        "log_softmax", "reduce_log_sum_exp", "softmax",
    ),
    "tree_ensemble": (
        "tree_ensemble",
    ),
}
