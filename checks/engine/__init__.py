"""Tests of the engine's public interface, also without the rest of the kit."""
