"""Validates YAML files with a JSON schema: schema.py SCHEMA FILE... A line for each file that it refuses."""

import json
import sys

import jsonschema
import yaml

schema = json.load(open(sys.argv[1], encoding="utf-8"))
jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(schema)
for path in sys.argv[2:]:
    with open(path, encoding="utf-8") as file:
        try:
            value = yaml.safe_load(file)
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            print(f"{path}\tis not YAML: {error}".replace("\n", " "))
            continue
    for error in validator.iter_errors(value):
        print(f"{path}\t{error.json_path}: {error.message}".replace("\n", " "))
        break
