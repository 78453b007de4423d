"""Exact integer noise and where it comes from.

Numbers only become private by adding integers drawn here: discrete Laplace or the rounded normal, from the operating
system's entropy, without floats and without approximation. ``grid`` turns amounts into integers, ``finite`` draws from
tables of integer weights. Law: importing this room loads neither numpy nor cryptography.
"""

from steelyard.noise.sources import ExactNoise, Noise, OpenDPNoise, TestNoise

__all__ = ["ExactNoise", "Noise", "OpenDPNoise", "TestNoise"]
