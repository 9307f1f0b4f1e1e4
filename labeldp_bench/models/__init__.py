"""Networks and neighbour models: `network(num_classes=K, image_shape=(H, W, C))`."""
