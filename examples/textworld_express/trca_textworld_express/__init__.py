"""Importing this registers ``textworld_express/CookingWorld-v0``, with Gymnasium too."""

from trca.envs import register

register("textworld_express/CookingWorld-v0", "trca_textworld_express.env:CookingWorld")
