"""What PTX instructions compute, as tables of functions over all lanes."""
