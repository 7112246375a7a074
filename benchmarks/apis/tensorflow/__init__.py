"""TensorFlow 1 and 2: what their trainers share."""
