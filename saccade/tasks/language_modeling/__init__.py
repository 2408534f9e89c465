"""Language models: predict the next token, or fill gaps."""
