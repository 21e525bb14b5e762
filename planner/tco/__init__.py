"""The money engine: from a price, a rate of work and assumptions to cost lines that sum to the total. Pure and exact."""
