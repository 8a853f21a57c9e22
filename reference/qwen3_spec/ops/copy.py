"""What a layer is handed: the output of the layer before it, or the embeddings that a case is given."""

from qwen3_spec.arithmetic import Arithmetic, Array
from qwen3_spec.op import Op
from qwen3_spec.site import Site


def at_site(site: Site, _arithmetic: Arithmetic) -> Array:
    """A place's input, this step's part of it where the case is given all positions at once."""
    of_all = site.names[0].endswith("_inputs_embeds")
    return site.this_step(site.inputs[0]) if of_all else site.inputs[0]


OPS = (Op("copy", at_site, copies=True, by_row=True),)
