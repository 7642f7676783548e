"""The fair benchmark: data sets × methods × shots × tasks × encoders under one protocol, and reports on it."""
