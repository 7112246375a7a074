"""The processes of one node for PaddlePaddle 3: what its launcher sets for gloo, without it."""

from apis.paddle.launch import collective
from base_launch import each_with

processes = each_with(collective)
