"""Where SearchQA questions and passages come from: generated content and official datasets."""
