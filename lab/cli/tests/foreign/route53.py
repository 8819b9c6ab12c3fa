"""Looks at moto's Route 53 and changes it as another program would: route53.py URL COMMAND [ZONE]."""

import json
import sys

import boto3

url, command, *rest = sys.argv[1:]
client = boto3.client(
    "route53",
    endpoint_url=url,
    region_name="us-east-1",
    aws_access_key_id="other",
    aws_secret_access_key="other",
)


def change(zone, action, record):
    batch = {"Changes": [{"Action": action, "ResourceRecordSet": record}]}
    client.change_resource_record_sets(HostedZoneId=zone, ChangeBatch=batch)


def simple(name, kind, value):
    return {"Name": name, "Type": kind, "TTL": 60, "ResourceRecords": [{"Value": value}]}


def make():
    made = client.create_hosted_zone(Name="example.org", CallerReference="test")
    zone = made["HostedZone"]["Id"].rsplit("/", 1)[-1]
    # Records and a health check of others: beside the name, at it, below it, and after it.
    for name, kind, value in [
        ("www.example.org.", "A", "192.0.2.1"),
        ("llm.example.org.", "TXT", '"not a gateway"'),
        ("docs.llm.example.org.", "A", "192.0.2.2"),
        ("zzz.example.org.", "AAAA", "2001:db8::9"),
    ]:
        change(zone, "UPSERT", simple(name, kind, value))
    config = {"Type": "HTTP", "IPAddress": "192.0.2.1", "Port": 80, "ResourcePath": "/"}
    client.create_health_check(CallerReference="other", HealthCheckConfig=config)
    return zone


def show(zone):
    records = []
    for page in client.get_paginator("list_resource_record_sets").paginate(HostedZoneId=zone):
        records += page["ResourceRecordSets"]
    records = [record for record in records if record["Type"] not in ("NS", "SOA")]
    checks = {one["Id"]: one for one in client.list_health_checks()["HealthChecks"]}
    return {"records": records, "checks": checks}


def tamper(zone):
    """Changes the first address of the fleet, and deletes its first latency record."""
    records = show(zone)["records"]
    address = next(one for one in records if one.get("MultiValueAnswer"))
    change(zone, "UPSERT", {**address, "TTL": 7})
    latency = next(one for one in records if one.get("Region"))
    change(zone, "DELETE", latency)
    return [address["SetIdentifier"], latency["SetIdentifier"]]


print(json.dumps({"make": make, "show": show, "tamper": tamper}[command](*rest)))
