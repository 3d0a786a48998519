"""Operators that bounds from source are tried on: none of them is in the library of known functions.

The forty operators, the six whose memory depends on their data, and functions of scikit-image, which nobody of this
project wrote. For each: how many axes its arrays have, how many arrays it takes, and parameters that it gets. The
rules of the walk were changed after looking at these; `FRESH` are functions chosen after that, by their names alone,
and run once: neither a rule nor a factor has seen them.
"""

import importlib

from experiments.operators import OPERATORS, VARYING

# name: (axes, arrays, parameters)
SKIMAGE = {
    "filters:gaussian": (3, 1, {"sigma": 2.0}),
    "filters:sobel": (3, 1, {}),
    "filters:prewitt": (3, 1, {}),
    "filters:scharr": (3, 1, {}),
    "filters:farid": (3, 1, {}),
    "filters:laplace": (3, 1, {}),
    "filters:median": (3, 1, {}),
    "filters:unsharp_mask": (3, 1, {"radius": 2.0}),
    "filters:difference_of_gaussians": (3, 1, {"low_sigma": 1.0}),
    "filters:threshold_otsu": (3, 1, {}),
    "filters:threshold_li": (3, 1, {}),
    "filters:threshold_isodata": (3, 1, {}),
    "filters:threshold_mean": (3, 1, {}),
    "filters:threshold_local": (3, 1, {"block_size": 5}),
    "filters:threshold_sauvola": (3, 1, {}),
    "filters:threshold_niblack": (3, 1, {}),
    "filters:butterworth": (3, 1, {}),
    "filters:sato": (2, 1, {}),
    "filters:frangi": (2, 1, {}),
    "filters:hessian": (2, 1, {}),
    "filters:apply_hysteresis_threshold": (3, 1, {"low": 0.1, "high": 0.8}),
    "exposure:rescale_intensity": (3, 1, {}),
    "exposure:equalize_hist": (3, 1, {}),
    "exposure:adjust_gamma": (3, 1, {"gamma": 2.0}),
    "exposure:adjust_log": (3, 1, {}),
    "exposure:adjust_sigmoid": (3, 1, {}),
    "exposure:equalize_adapthist": (2, 1, {}),
    "exposure:match_histograms": (3, 2, {}),
    "exposure:cumulative_distribution": (3, 1, {}),
    "exposure:is_low_contrast": (3, 1, {}),
    "transform:rescale": (3, 1, {"scale": 0.5}),
    "transform:downscale_local_mean": (3, 1, {"factors": 2}),
    "transform:pyramid_reduce": (3, 1, {}),
    "transform:pyramid_expand": (2, 1, {}),
    "transform:rotate": (2, 1, {"angle": 20.0}),
    "transform:swirl": (2, 1, {}),
    "transform:integral_image": (3, 1, {}),
    "restoration:denoise_tv_chambolle": (3, 1, {}),
    "restoration:unwrap_phase": (2, 1, {}),
    "feature:canny": (2, 1, {}),
    "feature:corner_harris": (2, 1, {}),
    "feature:corner_shi_tomasi": (2, 1, {}),
    "feature:structure_tensor": (3, 1, {}),
    "feature:hessian_matrix": (3, 1, {}),
    "feature:hessian_matrix_det": (2, 1, {}),
    "feature:shape_index": (2, 1, {}),
    "feature:peak_local_max": (3, 1, {"min_distance": 3}),
    "feature:daisy": (2, 1, {}),
    "measure:block_reduce": (3, 1, {"block_size": 2}),
    "measure:shannon_entropy": (3, 1, {}),
    "measure:moments_central": (2, 1, {}),
    "measure:blur_effect": (3, 1, {}),
    "morphology:erosion": (3, 1, {}),
    "morphology:opening": (3, 1, {}),
    "morphology:white_tophat": (3, 1, {}),
    "morphology:isotropic_dilation": (3, 1, {"radius": 2.0}),
    "util:img_as_float": (3, 1, {}),
    "util:img_as_ubyte": (3, 1, {}),
    "util:invert": (3, 1, {}),
    "util:random_noise": (3, 1, {}),
    "util:view_as_windows": (3, 1, {"window_shape": 3}),
    "util:montage": (3, 1, {}),
    "color:rgb2gray": (0, 1, {}),
    "color:rgb2hsv": (0, 1, {}),
    "color:rgb2lab": (0, 1, {}),
    "color:rgb2ycbcr": (0, 1, {}),
    "metrics:mean_squared_error": (3, 2, {}),
    "metrics:normalized_root_mse": (3, 2, {}),
    "metrics:structural_similarity": (3, 2, {"data_range": 2.0}),
    "metrics:hausdorff_distance": (3, 2, {}),
    "registration:phase_cross_correlation": (3, 2, {}),
    "segmentation:find_boundaries": (3, 1, {}),
    "segmentation:clear_border": (3, 1, {}),
    "segmentation:inverse_gaussian_gradient": (3, 1, {}),
}

FRESH = {
    "filters:roberts": (2, 1, {}),
    "filters:sobel_h": (2, 1, {}),
    "filters:meijering": (2, 1, {}),
    "filters:gabor": (2, 1, {"frequency": 0.2}),
    "filters:threshold_yen": (3, 1, {}),
    "filters:threshold_triangle": (3, 1, {}),
    "filters:threshold_multiotsu": (2, 1, {}),
    "exposure:histogram": (3, 1, {}),
    "transform:warp_polar": (2, 1, {}),
    "transform:hough_line": (2, 1, {}),
    "restoration:denoise_bilateral": (2, 1, {}),
    "restoration:denoise_tv_bregman": (2, 1, {}),
    "restoration:rolling_ball": (2, 1, {"radius": 5}),
    "restoration:inpaint_biharmonic": (2, 2, {}),
    "feature:corner_kitchen_rosenfeld": (2, 1, {}),
    "feature:corner_foerstner": (2, 1, {}),
    "feature:hog": (2, 1, {}),
    "feature:multiscale_basic_features": (2, 1, {}),
    "measure:moments": (3, 1, {}),
    "measure:centroid": (3, 1, {}),
    "measure:inertia_tensor": (3, 1, {}),
    "measure:pearson_corr_coeff": (3, 2, {}),
    "morphology:dilation": (3, 1, {}),
    "morphology:closing": (3, 1, {}),
    "morphology:black_tophat": (3, 1, {}),
    "morphology:h_maxima": (2, 1, {"h": 0.1}),
    "morphology:isotropic_erosion": (3, 1, {"radius": 2.0}),
    "util:img_as_float32": (3, 1, {}),
    "color:gray2rgb": (2, 1, {}),
    "color:rgb2luv": (0, 1, {}),
    "color:rgb2yuv": (0, 1, {}),
    "color:rgb2xyz": (0, 1, {}),
    "color:rgb2hed": (0, 1, {}),
    "metrics:peak_signal_noise_ratio": (3, 2, {"data_range": 2.0}),
    "metrics:normalized_mutual_information": (3, 2, {}),
    "registration:optical_flow_tvl1": (2, 2, {}),
    "segmentation:felzenszwalb": (2, 1, {}),
    "segmentation:chan_vese": (2, 1, {}),
    "segmentation:morphological_chan_vese": (3, 1, {"num_iter": 3}),
}

# What else the project's operators are asked with.
PARAMETERS = {"agc": {"window": 301}, "time_gain": {"power": 2.0}, "windowed_pca": {"length": 8, "kept": 2},
              "k_means": {"clusters": 6}}  # fmt: skip

# Calls that do not end: its sorting needs numbers that compare.
ENDLESS = {("skimage.restoration:unwrap_phase", "nan")}

# Shapes with so many axes; 0: an image of three colours.
SHAPES = {
    3: ((61, 67, 71), (40, 95, 118)),
    2: ((541, 547), (401, 1103)),
    0: ((311, 317, 3), (211, 701, 3)),
}


def names():
    return [*OPERATORS, *VARYING, *(f"skimage.{name}" for name in [*SKIMAGE, *FRESH])]


def family(name):
    if name.startswith("skimage."):
        return "fresh" if name.removeprefix("skimage.") in FRESH else "scikit-image"
    return "data-dependent" if name in VARYING else "forty operators"


def function(name):
    if name.startswith("skimage."):
        module, short = name.split(":")
        return getattr(importlib.import_module(module), short)
    module = OPERATORS.get(name) or VARYING[name]
    return getattr(importlib.import_module(f"experiments.operators.{module}"), name)


def cases(name, features):
    """Calls of an operator: at two shapes, or with what else a bound may depend on."""
    short = name.removeprefix("skimage.")
    axes, arrays, given = SKIMAGE.get(short) or FRESH.get(short) or (3, 1, {})
    first, second = SHAPES[axes]
    case = {
        "shape": first,
        "arrays": arrays,
        "dtype": "<f4",
        "layout": "C",
        "data_values": "noise",
        "params": given,
    }
    if not features:
        return [case, {**case, "shape": second}]
    changes = [{"dtype": dtype} for dtype in ("<f8", "<i2", ">f4")]
    changes += [{"layout": layout} for layout in ("F", "strided")]
    data_values = ["constant", "sorted", "sparse", "nan"]
    changes += [{"data_values": each} for each in data_values if (name, each) not in ENDLESS]
    changes += [{"params": PARAMETERS[name]}] if name in PARAMETERS else []
    return [{**case, **change} for change in changes]
