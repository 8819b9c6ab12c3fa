"""Orders KV transfers by urgency: each chunk of a transfer waits for its permit.

The wrappers for transfer engines are modules of their own, so that importing this package needs
none of them: `meridian_flow.mooncake`, `meridian_flow.nixl`, `meridian_flow.vllm`.
"""

from .gate import Gate, Stage
from .request import Request
from .transfer import Transfer

__all__ = ["Gate", "Request", "Stage", "Transfer"]
