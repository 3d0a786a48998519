"""Forty operators of seismic processing, statistics and machine learning, and six more whose
memory depends on their data. Each takes one volume (axis 2: samples of a trace) and leaves it
unchanged."""

#: name -> module that holds the function of that name
MODULES = {
    "attributes": (
        "gst3d envelope semblance rms instantaneous_phase instantaneous_frequency sweetness"
        " cosine_of_phase agc time_gain"
    ),
    "filters": (
        "gaussian median gradient_magnitude second_derivative convolution uniform"
        " percentile_filter zoom"
    ),
    "spectral": "rfft_bandpass fftconvolve oaconvolve stft ricker sosfiltfilt",
    "statistics": (
        "histogram_equalisation histogram argsort_rank cumsum_where boolean_expression"
        " nan_median standard_deviation"
    ),
    "texture": "glcm local_binary_pattern",
    "linear": "windowed_pca patch_svd gram matmul tensordot",
    "tables": "group_by rolling_mean",
}
OPERATORS = {name: module for module, names in MODULES.items() for name in names.split()}

#: The six whose bytes depend on the data.
VARYING = dict.fromkeys(
    ("boolean_masking", "unique", "label", "sparse_conversion", "k_means", "adaptive_tiling"),
    "varying",
)
