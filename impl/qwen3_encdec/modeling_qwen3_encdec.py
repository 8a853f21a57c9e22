"""The whole model: encoder, merged-attention decoder, one shared embedding and the LM head."""

import warnings
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import nn
from transformers.cache_utils import Cache
from transformers.modeling_outputs import Seq2SeqLMOutput

from .cache_name import CACHE, one_cache
from .configuration_qwen3_encdec import Qwen3EncoderDecoderConfig
from .generation import Qwen3GenerationMixin
from .graph_capture import capturing
from .inputs import check_ids, check_tensor
from .modeling_qwen3_decoder import Qwen3Decoder, Qwen3DecoderOutput
from .modeling_qwen3_encoder import Qwen3Encoder, Qwen3EncoderOutput
from .pretrained import Qwen3EncoderDecoderPreTrainedModel

IGNORED_LABEL = -100


class Qwen3ForSeq2SeqLM(Qwen3EncoderDecoderPreTrainedModel, Qwen3GenerationMixin):  # type: ignore[no-untyped-call]
    """Sequence-to-sequence language model; every weight has its place in a Qwen3 checkpoint.

    `shared`, `encoder.embed_tokens` and `decoder.embed_tokens` are always one matrix, `lm_head` too when
    `config.tie_word_embeddings`.
    """

    accepts_loss_kwargs = True  # read by HF's Trainer: num_items_in_batch is welcome, or it would average the means
    _tied_weights_keys = dict.fromkeys(  # what saving may leave out; what is tied is decided below
        ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"), "shared.weight"
    )

    def __init__(self, config: Qwen3EncoderDecoderConfig) -> None:
        super().__init__(config)
        self.shared = nn.Embedding(config.vocab_size, config.hidden_size, config.padding_idx)
        self.encoder = Qwen3Encoder(config)
        self.decoder = Qwen3Decoder(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()  # type: ignore[no-untyped-call]

    def get_expanded_tied_weights_keys(self, all_submodels: bool = False) -> dict[str, str]:
        """Parameter names tied to `shared.weight`; the two stacks' embeddings are, whatever happens to the head."""
        tied = dict(self._tied_weights_keys)
        if not self.config.tie_word_embeddings:
            del tied["lm_head.weight"]
        return tied

    def get_input_embeddings(self) -> nn.Module:
        """The shared embedding."""
        return self.shared

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the shared embedding in both stacks."""
        assert isinstance(value, nn.Embedding)
        self.shared = value
        for stack in (self.encoder, self.decoder):
            stack.embed_tokens = nn.Embedding(
                value.num_embeddings, value.embedding_dim, value.padding_idx, _weight=value.weight
            )
            stack.embed_tokens.weight = value.weight

    def prepare_decoder_input_ids_from_labels(self, labels: torch.Tensor) -> torch.Tensor:
        """`labels [batch, dec]` shifted right behind `decoder_start_token_id`.

        Ignored labels (-100) become `pad_token_id`, or the start id where there is none.
        `ValueError` without a start id.
        """
        start, pad = self.config.decoder_start_token_id, self.config.pad_token_id
        if start is None:
            raise ValueError("decoder_start_token_id is None; set it in the config, or pass decoder_input_ids")
        shifted = torch.cat((labels.new_full((labels.shape[0], 1), start), labels[:, :-1]), dim=1)
        return shifted.masked_fill(shifted == IGNORED_LABEL, start if pad is None else pad)

    def _encode(
        self, encoder_outputs: Qwen3EncoderOutput | Sequence[Any] | None, **encoder_inputs: Any
    ) -> Qwen3EncoderOutput:
        if encoder_outputs is None:
            if encoder_inputs["input_ids"] is None and encoder_inputs["inputs_embeds"] is None:
                raise ValueError("no encoder input; pass input_ids, inputs_embeds or encoder_outputs")
            return cast(Qwen3EncoderOutput, self.encoder(**encoder_inputs))
        if hasattr(encoder_outputs, "last_hidden_state"):
            return cast(Qwen3EncoderOutput, encoder_outputs)
        if not isinstance(encoder_outputs, (tuple, list)):  # a bare tensor would be taken apart along its batch
            raise ValueError(
                f"encoder_outputs is a {type(encoder_outputs).__name__}; expected what the encoder returns, or a tuple"
            )
        return Qwen3EncoderOutput(*encoder_outputs)

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.Tensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        encoder_outputs: Qwen3EncoderOutput | Sequence[Any] | None = None,
        past_key_values: Cache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        decoder_inputs_embeds: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        decoder_position_ids: torch.Tensor | None = None,
        use_cache: bool | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        logits_to_keep: int | torch.Tensor = 0,
        num_items_in_batch: torch.Tensor | int | None = None,
        *,
        cache: Cache | None = None,
    ) -> Seq2SeqLMOutput | tuple[Any, ...]:
        """Logits `[batch, dec, vocab]`, and the mean cross-entropy (float32, -100 ignored) when `labels` are given.

        When every label is -100 the loss and all gradients are 0, with one warning (HF's own mean is NaN there).
        `num_items_in_batch` labels of a whole accumulated batch are what HF's `Trainer` has the sum divided by instead.
        `labels` make `decoder_input_ids` by a shift to the right when there are none. `position_ids` are the encoder's,
        `cache` is another name of `past_key_values`.
        With `logits_to_keep` only the last positions get logits (0 = all), or those that a tensor of indices names.
        The merged weights are split into `decoder_attentions` and `cross_attentions`. Where `output_*` or
        `return_dict` is None, the config's value counts. `ValueError` as `Qwen3Encoder` and `Qwen3Decoder`, and when a
        side has no input.
        """
        config = self.config
        output_attentions = config.output_attentions if output_attentions is None else output_attentions
        output_hidden_states = config.output_hidden_states if output_hidden_states is None else output_hidden_states
        encoded = self._encode(
            encoder_outputs,
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            output_attentions=output_attentions,
            output_hidden_states=output_hidden_states,
        )
        if labels is not None:
            check_tensor(labels, "labels")
            check_ids(labels.masked_fill(labels == IGNORED_LABEL, 0), self.config.vocab_size, "labels")
        if decoder_input_ids is None and decoder_inputs_embeds is None:
            if labels is None:
                raise ValueError("no decoder input; pass decoder_input_ids, decoder_inputs_embeds or labels")
            decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        decoded: Qwen3DecoderOutput = self.decoder(
            input_ids=decoder_input_ids,
            encoder_hidden_states=encoded.last_hidden_state,
            attention_mask=decoder_attention_mask,
            encoder_attention_mask=attention_mask,
            position_ids=decoder_position_ids,
            encoder_position_ids=position_ids,
            inputs_embeds=decoder_inputs_embeds,
            past_key_values=one_cache(past_key_values, cache),
            use_cache=use_cache,
            output_attentions=output_attentions,
            output_hidden_states=output_hidden_states,
        )
        assert decoded.last_hidden_state is not None and encoded.last_hidden_state is not None
        logits = self.lm_head(decoded.last_hidden_state[:, _positions_to_keep(logits_to_keep)])
        held: dict[str, Any] = {CACHE: getattr(decoded, CACHE)}
        decoder_attentions, cross_attentions = _split_weights(decoded.attentions, encoded.last_hidden_state.shape[1])
        output = Seq2SeqLMOutput(
            loss=None if labels is None else _loss(logits, labels, num_items_in_batch),
            logits=logits,
            **held,
            decoder_hidden_states=decoded.hidden_states,
            decoder_attentions=decoder_attentions,
            cross_attentions=cross_attentions,
            encoder_last_hidden_state=encoded.last_hidden_state,
            encoder_hidden_states=encoded.hidden_states,
            encoder_attentions=encoded.attentions,
        )
        return output if (config.return_dict if return_dict is None else return_dict) else output.to_tuple()


def _positions_to_keep(logits_to_keep: int | torch.Tensor) -> slice | torch.Tensor:
    if isinstance(logits_to_keep, int):
        if logits_to_keep < 0:
            raise ValueError(f"logits_to_keep = {logits_to_keep}; expected a count of positions, 0 for all, or indices")
        return slice(-logits_to_keep, None)  # from -0 on stands for all
    check_tensor(logits_to_keep, "logits_to_keep")
    return logits_to_keep


def _split_weights(
    merged: tuple[torch.Tensor, ...] | None, encoder_length: int
) -> tuple[tuple[torch.Tensor, ...] | None, tuple[torch.Tensor, ...] | None]:
    if merged is None:
        return None, None
    decoder_length = merged[0].shape[-1] - encoder_length
    return tuple(weights[..., :decoder_length] for weights in merged), tuple(
        weights[..., decoder_length:] for weights in merged
    )


def _loss(
    logits: torch.Tensor, labels: torch.Tensor, num_items_in_batch: torch.Tensor | int | None = None
) -> torch.Tensor:
    """The mean cross-entropy over the labels that are not ignored; 0 and a warning when there are none.

    With `num_items_in_batch` the sum is divided by that: the mean of the means of unequal micro-batches is another.
    HF's models divide by that count of 0 and return NaN, which one step of an optimizer spreads over every weight.
    """
    if labels.shape != logits.shape[:2]:
        raise ValueError(
            f"labels has shape {tuple(labels.shape)}; expected {tuple(logits.shape[:2])} (batch, decoder length)"
        )
    flat = logits.float().flatten(0, 1)  # float32: a bfloat16 log-sum-exp over the vocabulary loses the small terms
    total = nn.functional.cross_entropy(flat, labels.flatten().long(), ignore_index=IGNORED_LABEL, reduction="sum")
    if num_items_in_batch is not None:
        return total / torch.as_tensor(num_items_in_batch, device=total.device).clamp(min=1)
    count = (labels != IGNORED_LABEL).sum()
    if not capturing() and not bool(count):
        warnings.warn(f"every label is {IGNORED_LABEL}: the loss is 0 and so is every gradient", stacklevel=3)
    return total / count.clamp(min=1)
