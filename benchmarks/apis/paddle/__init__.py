"""PaddlePaddle from 2 on: eager training, DataParallel between ranks."""
