"""What a small business counts with: shares of a sum, days a month later, prices by quantity."""
