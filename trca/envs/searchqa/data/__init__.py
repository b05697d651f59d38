"""Sources of SearchQA questions and passages: generated content and official datasets."""
