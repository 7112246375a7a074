"""The processes of one node for PaddlePaddle 3, with the variables that its launcher would set."""

from apis.paddle.launch import collective
from base_launch import each_with

processes = each_with(collective)
