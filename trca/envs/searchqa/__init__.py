"""SearchQA: answer questions by searching and opening passages."""
