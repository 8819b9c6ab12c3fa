//! The health of a gateway: each problem with a name, so that a page shows what is wrong and where.
//!
//! It has no memory: a problem is listed as long as it lasts.

use meridian_protocol::admin::{Health, Level, Peer, Point, Problem, Replica, Status};

/// Certificates that expire sooner are a problem, s.
const SOON: f64 = 7.0 * 86400.0;

pub(super) fn health(status: &Status, recent: &Point, now_s: f64) -> Health {
    let mut problems = Vec::from_iter(unserved(status));
    problems.extend(status.replicas.iter().filter_map(replica));
    problems.extend(status.peers.iter().filter_map(peer));
    problems.extend(control(status));
    problems.extend(sources(status));
    problems.extend(certificates(status, now_s));
    problems.extend(errors(recent));
    problems.extend(breaches(status));
    Health::of(problems)
}

fn degraded(kind: &str, name: &str, text: String) -> Problem {
    Problem { level: Level::Degraded, kind: kind.to_owned(), name: name.to_owned(), text }
}

/// Whether no replica takes requests.
fn unserved(status: &Status) -> Option<Problem> {
    let answers = |r: &Replica| r.state == "up" && r.breaker != "open" && r.role != "prefill";
    if status.replicas.iter().any(answers) {
        return None;
    }
    if status.peers.iter().any(|peer| peer.state == "up" && peer.usable > 0) {
        let text = "no replica of this gateway takes requests; its peers serve them".to_owned();
        return Some(degraded("replica", "", text));
    }
    let text = match status.replicas.is_empty() {
        true => "the gateway has no replicas".to_owned(),
        false => format!("none of the {} replicas takes requests", status.replicas.len()),
    };
    Some(Problem { level: Level::Down, ..degraded("replica", "", text) })
}

fn replica(replica: &Replica) -> Option<Problem> {
    let Replica { name, url, .. } = replica;
    let because = replica.trouble.as_ref().map_or(String::new(), |why| format!(": {why}"));
    let text = match (replica.state.as_str(), replica.breaker.as_str()) {
        ("down", _) => format!("{name} at {url} is down{because}"),
        ("unproven", _) => format!("{name} at {url} has not answered yet{because}"),
        (_, "open") => format!("{name} at {url} failed repeatedly: its circuit breaker is open"),
        _ => return None,
    };
    Some(degraded("replica", name, text))
}

fn peer(peer: &Peer) -> Option<Problem> {
    if peer.state == "up" {
        return None;
    }
    let because = peer.problem.as_ref().map_or(String::new(), |why| format!(": {why}"));
    let name = format!("{}/{}", peer.region, peer.name);
    let text = format!("peer {name} is {}{because}", peer.state);
    Some(degraded("peer", &name, text))
}

fn control(status: &Status) -> Option<Problem> {
    let control = status.control.as_ref().filter(|control| control.state != "up")?;
    let text = match control.view_age_s {
        Some(age) => format!("the control plane is lost; the view is {age:.0} s old"),
        None => "the control plane has not answered yet".to_owned(),
    };
    Some(degraded("control", &control.url, text))
}

fn sources(status: &Status) -> impl Iterator<Item = Problem> {
    status.discovery.iter().filter_map(|source| {
        let why = source.trouble.as_ref()?;
        Some(degraded("source", &source.name, format!("{}: {why}", source.name)))
    })
}

fn certificates(status: &Status, now_s: f64) -> impl Iterator<Item = Problem> {
    status.certificates.iter().filter_map(move |certificate| {
        let left = certificate.expires as f64 - now_s;
        let port = &certificate.port;
        if left >= SOON {
            return None;
        }
        let text = match left > 0.0 {
            true => format!("the certificate of the {port} port expires in {:.0} h", left / 3600.0),
            false => format!("the certificate of the {port} port has expired"),
        };
        Some(degraded("certificate", port, text))
    })
}

/// Requests that failed or were rejected in the last 10 to 20 s.
fn errors(recent: &Point) -> Option<Problem> {
    let count = (recent.errors_per_s * recent.seconds).round();
    let text = format!(
        "{count} requests failed or were rejected in the last {:.0} s",
        recent.seconds.ceil()
    );
    (count > 0.0).then(|| degraded("requests", "", text))
}

fn breaches(status: &Status) -> Option<Problem> {
    let breaches = status.residency.as_ref()?.breaches;
    let text = format!("{breaches} answers came from places that a residency rule forbids");
    (breaches > 0).then(|| degraded("residency", "", text))
}

#[cfg(test)]
mod tests {
    use meridian_protocol::admin::{Certificate, Control, Residency, Source};

    use super::*;

    fn up(name: &str) -> Replica {
        let (state, breaker) = ("up".to_owned(), "closed".to_owned());
        let (name, url) = (name.to_owned(), format!("http://{name}:8000"));
        Replica { name, url, state, breaker, role: "both".to_owned(), ..Replica::default() }
    }

    fn of(status: &Status) -> Health {
        health(status, &Point::default(), 1e9)
    }

    // A healthy gateway has no problems; each fault is listed with the name of the part, the worst
    // first.
    #[test]
    fn each_fault_is_named() {
        let mut status = Status { replicas: vec![up("r0"), up("r1")], ..Status::default() };
        assert_eq!(of(&status), Health::default());
        status.replicas[1].state = "down".to_owned();
        status.replicas[1].trouble = Some("connection refused".to_owned());
        let peer = |state: &str| Peer {
            name: "eu-1".to_owned(),
            region: "eu".to_owned(),
            state: state.to_owned(),
            usable: 1,
            ..Peer::default()
        };
        status.peers = vec![peer("gone")];
        status.control =
            Some(Control { state: "lost".to_owned(), view_age_s: Some(7.0), ..Control::default() });
        let trouble = Some("no such file".to_owned());
        status.discovery = vec![Source { name: "file a".to_owned(), trouble, ..Source::default() }];
        status.certificates = vec![
            Certificate { port: "admin".to_owned(), expires: 1_000_003_600 },
            Certificate { port: "peers".to_owned(), expires: 2_000_000_000 },
        ];
        status.residency = Some(Residency { breaches: 1, ..Residency::default() });
        let recent = Point { errors_per_s: 0.2, seconds: 15.0, ..Point::default() };
        let found = health(&status, &recent, 1e9);
        let texts: Vec<&str> = found.problems.iter().map(|p| p.text.as_str()).collect();
        assert_eq!(found.level, Level::Degraded);
        assert_eq!(
            texts,
            [
                "r1 at http://r1:8000 is down: connection refused",
                "peer eu/eu-1 is gone",
                "the control plane is lost; the view is 7 s old",
                "file a: no such file",
                "the certificate of the admin port expires in 1 h",
                "3 requests failed or were rejected in the last 15 s",
                "1 answers came from places that a residency rule forbids",
            ]
        );
        status.replicas[0].breaker = "open".to_owned();
        let found = of(&status);
        assert_eq!(
            (found.level, &*found.problems[0].text),
            (Level::Down, "none of the 2 replicas takes requests")
        );
        status.peers = vec![peer("up")];
        assert_eq!(of(&status).level, Level::Degraded, "its peers serve");
        assert_eq!(of(&Status::default()).problems[0].text, "the gateway has no replicas");
    }

    // Replicas that only prefill answer no request.
    #[test]
    fn prefill_alone_serves_nothing() {
        let prefill = Replica { role: "prefill".to_owned(), ..up("r0") };
        let status = Status { replicas: vec![prefill], ..Status::default() };
        assert_eq!(of(&status).level, Level::Down);
    }
}
