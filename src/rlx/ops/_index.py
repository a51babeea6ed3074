# Made by tools/gen_reference.py; do not edit.
"""Which family holds an op."""

INDEX = {
    "attention": (
        "attention", "fused_attention", "rope", "rotary_embedding",
    ),
    "binary": (
        "add", "atan2", "bit_and", "bit_or", "bit_xor", "div", "eq", "floor_div", "fma", "fmod", "ge", "gt", "le",
        "logical_and", "logical_or", "logical_xor", "lt", "make_complex", "max", "min", "mod", "mul", "ne", "pow",
        "shl", "shr", "sub", "where",
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
    "cumulative": (
        "cummax", "cummin", "cumprod", "cumsum",
    ),
    "dynamic": (
        "compress", "compress_bounded", "nonzero", "nonzero_bounded", "unique", "unique_bounded",
    ),
    "fft": (
        "fft", "fourier", "ifft", "irfft", "rfft", "stft", "stft_planned", "view_as_complex", "view_as_real",
    ),
    "fused": (
        "region",
    ),
    "index": (
        "gather", "gather_elements", "gather_nd", "one_hot", "scatter_elements", "scatter_nd", "search_sorted",
    ),
    "int8": (
        "int8_conv", "int8_conv_nhwc", "int8_matmul",
    ),
    "linalg": (
        "det", "inverse",
    ),
    "loss": (
        "nll_loss", "softmax_cross_entropy",
    ),
    "matmul": (
        "fused_matmul", "gemm", "matmul",
    ),
    "movement": (
        "depth_to_space", "eye", "flip", "iota", "pad", "repeat", "roll", "space_to_depth", "tile", "trilu",
    ),
    "nbits": (
        "fused_matmul_nbits", "matmul_nbits",
    ),
    "nms": (
        "non_max_suppression", "non_max_suppression_bounded",
    ),
    "norm": (
        "add_norm", "batch_norm", "group_norm", "instance_norm", "layer_norm", "lp_norm", "lrn", "mean_variance_norm",
        "moments", "rms_norm",
    ),
    "order": (
        "argmax", "argmin", "argsort", "sort", "topk",
    ),
    "pool": (
        "avg_pool", "lp_pool", "max_pool", "max_pool_indices", "max_unpool",
    ),
    "quant": (
        "dequantize_linear", "dynamic_quantize_linear", "lookup", "quantize_linear",
    ),
    "quant_products": (
        "conv_integer", "matmul_integer", "qlinear_conv", "qlinear_matmul",
    ),
    "random": (
        "bernoulli", "dropout", "multinomial", "randint", "random_normal", "random_uniform", "sample",
    ),
    "reduce": (
        "reduce_all", "reduce_any", "reduce_l1", "reduce_l2", "reduce_log_sum", "reduce_max", "reduce_mean",
        "reduce_min", "reduce_prod", "reduce_sum", "reduce_sum_square",
    ),
    "resize": (
        "resample", "resize",
    ),
    "rnn": (
        "dynamic_quantize_lstm", "gru", "lstm", "rnn",
    ),
    "sample": (
        "affine_grid", "col2im", "grid_sample", "roi_align",
    ),
    "softmax": (
        "log_softmax", "reduce_log_sum_exp", "softmax",
    ),
    "trees": (
        "tree_ensemble",
    ),
    "unary": (
        "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bit_not", "cast", "ceil", "celu", "clip", "conj",
        "cos", "cosh", "elu", "erf", "erfc", "exp", "exp2", "expm1", "floor", "gelu", "gelu_tanh", "hard_sigmoid",
        "hard_swish", "imag", "isfinite", "isinf", "isnan", "leaky_relu", "log", "log10", "log1p", "log2",
        "log_sigmoid", "logical_not", "mish", "neg", "real", "recip", "relu", "round", "rsqrt", "selu", "shrink",
        "sigmoid", "sign", "silu", "sin", "sinh", "softplus", "softsign", "sqrt", "square", "swish", "tan", "tanh",
        "thresholded_relu", "trunc",
    ),
    "view": (
        "concat", "expand", "hold", "reshape", "slice", "transpose",
    ),
}
