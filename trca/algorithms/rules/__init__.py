"""The credit rules, one file each: equations, parameters, function."""
