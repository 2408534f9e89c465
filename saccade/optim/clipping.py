r"""Gradient clipping."""

from torch import Tensor, nn

from saccade.optim.param_groups import Params, parameter_list


def clip_grad_norm(params: Params, max_norm: float) -> Tensor:
    r"""Scale all gradients by min(1, max_norm / ‖g‖) and return ‖g‖ before that.

    Pascanu et al. 2013. Differs from torch's `clip_grad_norm_` in that gradients within the limit
    are not multiplied by 1.
    """
    weights = [weight for weight in parameter_list(params) if weight.grad is not None]
    norm = nn.utils.get_total_norm([weight.grad for weight in weights if weight.grad is not None])
    if not norm <= max_norm:  # also clips where the norm is NaN
        nn.utils.clip_grads_with_norm_(weights, max_norm, norm)
    return norm
