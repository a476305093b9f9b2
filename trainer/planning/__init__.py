"""The layouts for the devices there are, and the two halves of a step measured for them."""
