//! nginx: servers, timeouts and TLS of the `server` with a `proxy_pass` to engines.
//!
//! A gateway has one address and one set of replicas, so one `server` is converted: the first with
//! TLS among those that proxy `/` or a path with `v1`, or else the first. Directives are inherited as
//! in nginx: a location's come before its server's, and those before the ones of `http`. Only the
//! directives of a short table are converted. Each other name is noted once.

mod directives;
mod files;
mod tokens;
mod units;
mod upstream;

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::ensure;

use super::draft::Draft;
use super::note::Found;
use super::source::Source;
use directives::TABLE;
use tokens::Directive;

/// Why directives outside the table are not converted, and the remedy.
const OTHERS: (&str, &str) =
    ("the import reads servers, timeouts and TLS", "look for its counterpart in docs/migration.md");
/// How to import a configuration of several files.
const WHOLE: &str = "import all files as one: `nginx -T > all.conf`";

/// Reads a configuration of nginx, a part of it with `server` and `upstream`, or the output of
/// `nginx -T`.
pub(super) fn read(source: &Source, draft: &mut Draft) -> anyhow::Result<()> {
    let (tree, folder) = files::read(source)?;
    let (blocks, mut http): (Vec<&Directive>, Vec<&Directive>) =
        tree.iter().partition(|d| d.name == "http" && d.block.is_some());
    http.extend(blocks.iter().flat_map(|block| block.inside()));
    let servers: Vec<Server<'_>> =
        http.iter().filter(|d| d.name == "server").map(|d| Server::of(d)).collect();
    ensure!(
        servers.iter().any(|server| !server.routes.is_empty()),
        "no server has a location with proxy_pass, so there is nothing to convert; name the file that has it, or {WHOLE}"
    );
    let rank = |s: &&Server<'_>| (s.serves_engines(), !s.routes.is_empty(), s.has_tls());
    // Reversed, because max_by_key returns the last of several equal servers.
    let chosen = servers.iter().rev().max_by_key(rank).unwrap_or(&servers[0]);
    for other in servers.iter().filter(|server| !std::ptr::eq(*server, chosen)) {
        let listen = other.directive.inside().iter().find(|d| d.name == "listen");
        let listen = listen.map_or("80", Directive::first);
        let found = Found::new("server with listen", listen, &other.directive.place);
        let why = "a gateway has one address, and another server is converted";
        draft.note(&found, why, "keep nginx for it, or import it from a file of its own");
    }
    convert(chosen, &http, &folder, draft);
    Ok(())
}

/// A `server` with its locations.
struct Server<'a> {
    directive: &'a Directive,
    /// The locations that proxy.
    routes: Vec<Route<'a>>,
    /// The others, which nginx answers itself.
    plain: Vec<&'a Directive>,
}

/// A location that proxies.
struct Route<'a> {
    location: &'a Directive,
    pass: &'a Directive,
    /// The directives of the location, and of those around it.
    inside: Vec<&'a Directive>,
}

impl<'a> Server<'a> {
    fn of(directive: &'a Directive) -> Server<'a> {
        let mut server = Server { directive, routes: Vec::new(), plain: Vec::new() };
        server.find(directive, &[]);
        server
    }

    fn find(&mut self, parent: &'a Directive, around: &[&'a Directive]) {
        for location in parent.inside().iter().filter(|d| d.name == "location") {
            let inside: Vec<_> = location.inside().iter().chain(around.iter().copied()).collect();
            self.find(location, &inside);
            match location.inside().iter().find(|d| d.name == "proxy_pass") {
                Some(pass) => self.routes.push(Route { location, pass, inside }),
                None if location.inside().iter().any(|d| d.name == "location") => {}
                None => self.plain.push(location),
            }
        }
    }

    fn has_tls(&self) -> bool {
        let is_tls = |d: &Directive| d.name == "listen" && d.args.iter().any(|arg| arg == "ssl");
        self.directive.inside().iter().any(is_tls)
    }

    fn serves_engines(&self) -> bool {
        self.routes.iter().any(Route::is_api)
    }
}

impl Route<'_> {
    /// Whether it covers the engines' API: `/`, or a path or regular expression with `v1`.
    fn is_api(&self) -> bool {
        path(self.location).trim_end_matches('/').is_empty() || path(self.location).contains("v1")
    }
}

/// The path of a location, or its regular expression.
fn path(location: &Directive) -> &str {
    location.args.last().map_or("", String::as_str)
}

fn convert(server: &Server<'_>, http: &[&Directive], folder: &Path, draft: &mut Draft) {
    let mut scopes: Vec<Vec<&Directive>> = vec![Vec::new()];
    let all = !server.serves_engines();
    for route in &server.routes {
        let path = path(route.location);
        if !route.is_api() {
            leave(route.location, draft);
        } else if !matches!(path, "/" | "/v1" | "/v1/") && !path.starts_with("/v1/") {
            let found = Found::new("location", path, &route.location.place);
            let why = "the gateway serves /v1 and chooses by the model in the request";
            draft.note(&found, why, "let clients call /v1/... and name the model");
        }
        if all || route.is_api() {
            pass(route.pass, http, draft);
            scopes[0].extend(&route.inside);
        }
    }
    server.plain.iter().for_each(|location| leave(location, draft));
    let mut listens: Vec<&Directive> =
        server.directive.inside().iter().filter(|d| d.name == "listen").collect();
    listens.sort_by_key(|d| !d.args.iter().any(|arg| arg == "ssl"));
    listens.iter().for_each(|listen| directives::listen(listen, draft));
    if listens.is_empty() {
        let place = &server.directive.place;
        let found = Found::new("server", "without listen, nginx's default", place);
        draft.listen(([0, 0, 0, 0], 80).into(), &found);
    }
    scopes.extend([server.directive.inside().iter().collect(), http.to_vec()]);
    apply(&scopes, server.has_tls(), folder, draft);
}

/// Notes a location that is not converted.
fn leave(location: &Directive, draft: &mut Draft) {
    let found = Found::new("location", path(location), &location.place);
    let why = "only proxies of / and /v1 are converted";
    draft.note(&found, why, "name it in `paths` if the engines serve it, or keep nginx for it");
}

/// Converts the target of a location.
fn pass(directive: &Directive, http: &[&Directive], draft: &mut Draft) {
    let (target, found) = (directive.first(), directive.found());
    if target.contains(['$', '@']) || target.contains("unix:") {
        let found = if target.contains('@') { found.hide() } else { found };
        let why = "it has a variable or a user name, or is a socket";
        return draft.note(&found, why, "add the address to `replicas`, a password to engine_key");
    }
    let (scheme, rest) = target.split_once("://").unwrap_or(("", target));
    let (host, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    if !matches!(path, "" | "/" | "/v1" | "/v1/") {
        let why = "paths are not rewritten";
        draft.note(&found, why, "let the engine serve its API at /v1");
    }
    match http.iter().find(|d| d.name == "upstream" && d.first() == host) {
        Some(upstream) => upstream::read(upstream, scheme, draft),
        None => drop(draft.replica(&format!("{scheme}://{host}"), 1, None, &found)),
    }
}

/// Converts the directives in force, the nearest first. One that is repeated in an outer scope has
/// no effect there, as in nginx.
fn apply(scopes: &[Vec<&Directive>], has_tls: bool, folder: &Path, draft: &mut Draft) {
    let (mut outer, mut noted) = (BTreeSet::new(), BTreeSet::new());
    for scope in scopes {
        for directive in scope.iter().filter(|d| !outer.contains(d.label())) {
            let (name, place) = (directive.label(), &directive.place);
            if name.starts_with("ssl_certificate") && !has_tls {
                let why = "the server listens without ssl";
                draft.note(&Found::hidden(name, place), why, "nothing to do");
            } else if TABLE.converts(name) || noted.insert(name) {
                TABLE.apply(
                    (name, &directive.args.join(" "), place),
                    draft,
                    |convert, _, draft| {
                        convert(directive, folder, draft);
                    },
                );
            }
        }
        outer.extend(scope.iter().map(|d| d.label()).filter(|name| *name != "include"));
    }
}
