"""Importing this registers the environment ``key_door/KeyDoor-v0``, with Gymnasium too."""

from trca.envs import register

register("key_door/KeyDoor-v0", "key_door.env:KeyDoor")
