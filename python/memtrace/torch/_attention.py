"""Which kernel computes attention on a GPU.

PyTorch queries the GPU for that; without one it would choose the kernel that makes every
intermediate result.
"""

import torch

_HALF = (torch.float16, torch.bfloat16)


def attention_for(capability):
    """What takes the place of `scaled_dot_product_attention` in a dry run.

    Flash attention for half precision without a mask from Ampere on, the memory-efficient kernel
    otherwise, as PyTorch chooses with its defaults.
    """
    plain = torch.nn.functional.scaled_dot_product_attention
    aten = torch.ops.aten

    def scaled_dot_product_attention(
        query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, **more
    ):
        scale = more.get("scale")
        autocast = torch.is_autocast_enabled("cuda") and query.dtype == torch.float32
        if autocast:
            half = torch.get_autocast_dtype("cuda")
            query, key, value = query.to(half), key.to(half), value.to(half)
        width = query.shape[-1]
        if query.device.type != "cuda" or query.dim() != 4 or more.get("enable_gqa"):
            return plain(query, key, value, attn_mask, dropout_p, is_causal, **more)
        flash = capability >= (8, 0) and query.dtype in _HALF and attn_mask is None
        if flash and width <= 256 and width % 8 == 0:
            return aten._scaled_dot_product_flash_attention(
                query, key, value, dropout_p, is_causal, False, scale=scale
            )[0]
        if width % (8 if query.dtype in _HALF else 4) == 0:
            if attn_mask is not None and attn_mask.dtype == torch.bool:
                attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype)
            if attn_mask is not None:
                shape = *query.shape[:3], key.shape[2]
                attn_mask = attn_mask.to(query.dtype).expand(shape)
            grad = torch.is_grad_enabled() and any(t.requires_grad for t in (query, key, value))
            return aten._scaled_dot_product_efficient_attention(
                query, key, value, attn_mask, grad, dropout_p, is_causal, scale=scale
            )[0]
        return plain(query, key, value, attn_mask, dropout_p, is_causal, **more)

    return scaled_dot_product_attention
