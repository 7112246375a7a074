"""Training in PaddlePaddle 3: eager."""

from apis.paddle.trainer import EagerTrainer as Trainer

__all__ = ["Trainer"]
