"""What PyTorch's CUDA kernels allocate in addition to their results.

It cannot be observed without a GPU. The rules here are what was observed of PyTorch's own kernels
(experiments/torch_dry_run): scratch memory of matrix products, and what a loss retains.
"""

import torch

from ._reduction import buffers_of_sum

_aten = torch.ops.aten


def extra_of(function):
    """A function of the GPU and the arguments, or None where the outputs are all there is.

    It returns how large the first output's storage is, if other than it seems, and the bytes
    of what is allocated after the outputs and freed before the kernel is done.
    """
    return _EXTRA.get(function)


def _product(gpu, *args, **kwargs):
    return None, [gpu.workspace()]


def _affine(gpu, bias, first, second, **kwargs):
    """With a vector to add, the product goes to cuBLASLt."""
    plain = kwargs.get("beta", 1) == 1 and kwargs.get("alpha", 1) == 1
    fused = bias.dim() == 1 and plain and bias.is_contiguous() and min(second.shape) > 1
    return None, [gpu.cublaslt_workspace if fused else gpu.workspace()]


def _loss(gpu, input, target, reduction=1, *rest):
    """The result is made as large as the input first, and shrinks without releasing that."""
    if reduction == 0:
        return None, []
    size = torch.broadcast_tensors(input, target)[0].numel() * input.element_size()
    return size, [size]


def _softmax_backward(gpu, gradient, output, *rest, **kwargs):
    return None, [output.numel() * gradient.element_size()]


def _logits_loss(gpu, input, target, weight=None, pos_weight=None, reduction=1):
    if reduction == 0:
        return None, [input.numel() * input.element_size()]
    return None, [input.numel() * input.element_size()] * 2


def _huber(gpu, input, target, reduction=1, *rest):
    return None, [] if reduction == 0 else [input.numel() * input.element_size()]


def _flash_backward(gpu, gradient, query, key, value, output, *rest, **kwargs):
    """Copies of what does not lie in the order in which the kernel reads, and sums in floats."""
    batch, heads, length, width = query.shape
    rounded = -(-length // 128) * 128
    copies = [t.numel() * t.element_size() for t in (gradient, output) if not _is_by_token(t)]
    sums = 4 * batch * heads * rounded
    return None, [*copies, sums, sums * -(-width // 32) * 32]


def _efficient_backward(gpu, gradient, query, key, value, bias, output, *rest, **kwargs):
    batch, heads, length, width = query.shape
    sums = 4 * batch * heads * length
    products = 4 * query.numel() if query.dtype == torch.float32 else 0
    return None, [sums, max(products, sums * width)]


def _sum(gpu, input, axes=None, *rest, **kwargs):
    return None, buffers_of_sum(input, axes, gpu)


def _sum_of_all(gpu, input, **kwargs):
    return None, buffers_of_sum(input, None, gpu)


def _is_by_token(tensor):
    return tensor.transpose(1, 2).is_contiguous()


_EXTRA = {
    _aten._scaled_dot_product_flash_attention_backward.default: _flash_backward,
    _aten._scaled_dot_product_efficient_attention_backward.default: _efficient_backward,
    _aten.binary_cross_entropy_with_logits.default: _logits_loss,
    _aten.huber_loss.default: _huber,
    _aten.mean.default: _sum_of_all,
    _aten.mean.dim: _sum,
    _aten.mm.default: _product,
    _aten.sum.default: _sum_of_all,
    _aten.sum.dim_IntList: _sum,
    _aten.bmm.default: _product,
    _aten.baddbmm.default: _product,
    _aten.addmm.default: _affine,
    _aten.mse_loss.default: _loss,
    _aten.smooth_l1_loss.default: _loss,
    _aten._softmax_backward_data.default: _softmax_backward,
}
