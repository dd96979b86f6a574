"""HTTP as the server speaks it: which part answers, limits on connections and bodies, metrics, stalls."""
