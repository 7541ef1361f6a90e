"""Names of PyTorch's functions and tensor methods, by what they do."""

from __future__ import annotations


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# ask about a tensor, or leave torch
NOT_COMPUTING = _names(
    """
    dim size numel stride storage_offset is_contiguous data_ptr element_size
    is_floating_point is_complex ndimension get_device __len__ __repr__ __format__ __hash__
    __bool__ item tolist untyped_storage storage requires_grad_ register_hook retain_grad
    backward __set__ numpy is_inference is_pinned is_sparse is_nested is_conj is_neg
    is_signed is_same_size nelement __deepcopy__ __reduce_ex__ _is_view result_type
    promote_types can_cast __contains__ __int__ __float__ __index__ is_nonzero
    """
)
# move or choose values
LAYOUT = _names(
    """
    view reshape transpose permute unsqueeze squeeze flatten unflatten expand contiguous
    clone movedim moveaxis narrow select T mT H mH data expand_as view_as reshape_as t
    adjoint __getitem__ split chunk unbind repeat detach index_select roll flip tile
    """
)
# change dtype or device
CASTS = _names(
    """
    float half bfloat16 double to type type_as cpu cuda
    """
)
# sums of products
PRODUCTS = _names(
    """
    matmul __rmatmul__ bmm mm baddbmm einsum
    """
)
# products with a parameter, in whatever form
PROJECTIONS = PRODUCTS | _names(
    """
    linear addmm tensordot
    """
)
# what scores may pass through on their way without being retraced
OPAQUE = _names(
    """
    tanh clamp clamp_min clamp_max maximum minimum nan_to_num tril triu relu sigmoid alpha_dropout
    dropout abs softplus round layer_norm rms_norm square pow sqrt
    """
)
# pointwise nonlinearities
ACTIVATIONS = _names(
    """
    relu relu6 gelu silu mish elu selu celu leaky_relu hardswish hardsigmoid hardtanh glu
    softplus tanh sigmoid prelu rrelu logsigmoid softsign tanhshrink
    """
)
# random draws
RANDOM = _names(
    """
    rand rand_like randn randn_like randint randint_like bernoulli uniform random normal
    exponential cauchy geometric
    """
)
# drop at random
DROPOUTS = _names(
    """
    dropout alpha_dropout feature_dropout dropout1d dropout2d dropout3d
    """
)
# what a hand-written norm takes of its input
REDUCTIONS = _names(
    """
    mean var std var_mean std_mean norm vector_norm sum
    """
)
