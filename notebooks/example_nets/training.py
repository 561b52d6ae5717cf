"""How the example networks are trained, in either framework."""

LEARNING_RATE = 0.05
MOMENTUM = 0.9
