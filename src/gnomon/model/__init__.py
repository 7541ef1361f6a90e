"""Token ids to logits: one set of blocks for encoder-decoder, encoder and decoder Transformers.

Knows nothing of text, training or decoding.
"""

from gnomon.model.attend import attend, use_backend
from gnomon.model.attention import AttentionConfig
from gnomon.model.average import mean_weights
from gnomon.model.bilstm import BiLSTM, BiLSTMConfig
from gnomon.model.cache import Cache
from gnomon.model.classifier import ClassifierConfig, ClassifierNetwork
from gnomon.model.config import TransformerConfig
from gnomon.model.embedding import EmbeddingConfig
from gnomon.model.feedforward import FeedForwardConfig
from gnomon.model.head import HeadConfig, Projection
from gnomon.model.io import load_model, read_config, save_model
from gnomon.model.lora import LoraConfig, add_lora, merge_lora
from gnomon.model.norm import NormConfig
from gnomon.model.positions import PositionConfig
from gnomon.model.roles import count_parameters, parameter_roles
from gnomon.model.rope import RopeConfig
from gnomon.model.score_bias import RelativeConfig
from gnomon.model.transformer import Transformer

__all__ = [
    "AttentionConfig",
    "BiLSTM",
    "BiLSTMConfig",
    "Cache",
    "ClassifierConfig",
    "ClassifierNetwork",
    "EmbeddingConfig",
    "FeedForwardConfig",
    "HeadConfig",
    "LoraConfig",
    "NormConfig",
    "PositionConfig",
    "Projection",
    "RelativeConfig",
    "RopeConfig",
    "Transformer",
    "TransformerConfig",
    "add_lora",
    "attend",
    "count_parameters",
    "load_model",
    "mean_weights",
    "merge_lora",
    "parameter_roles",
    "read_config",
    "save_model",
    "use_backend",
]
