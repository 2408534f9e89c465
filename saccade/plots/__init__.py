"""Pictures of what `inspection` measures: matplotlib figures and terminal maps."""
