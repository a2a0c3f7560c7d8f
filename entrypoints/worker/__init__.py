"""Long-running consumers, one module each; `interlock worker` starts them."""
