//! nginx: the server with a `proxy_pass` to engines, and the upstreams behind it.
//!
//! A gateway has one address and one set of replicas, so one `server` is converted: the first with
//! TLS among those that proxy the engines' API, or else the first. Its locations are converted if
//! they cover `/`, a path with `/v1`, or another path of an engine. Directives are inherited as in
//! nginx: a location's come before its server's, and those before the ones of `http`.

mod directives;
mod include;
mod tokens;
mod units;
mod upstream;

use anyhow::ensure;

use super::draft::Draft;
use super::note::Found;
use super::source::Source;
use directives::act;
use include::Includes;
use tokens::Directive;

/// Reads a configuration of nginx, or a part of it with `server` and `upstream`.
pub(super) fn read(source: &Source, draft: &mut Draft) -> anyhow::Result<()> {
    let directives = tokens::parse(&source.text, &source.name)?;
    let folder = source.folder.as_deref();
    let tree = Includes::new(folder).expand(directives, draft);
    let mut http: Vec<&Directive> = Vec::new();
    for directive in &tree {
        match (directive.name.as_str(), &directive.block) {
            ("http", Some(block)) => http.extend(block),
            ("events", Some(_)) => draft.needless("events"),
            _ => http.push(directive),
        }
    }
    let servers: Vec<Server<'_>> =
        http.iter().filter(|d| d.name == "server").map(|d| Server::of(d)).collect();
    ensure!(
        servers.iter().any(|server| !server.routes.is_empty()),
        "no server has a location with proxy_pass, so there is nothing to convert; name the file that has it"
    );
    let chosen = choose(&servers);
    for other in servers.iter().filter(|server| !std::ptr::eq(*server, chosen)) {
        other.leave(draft);
    }
    let mut reading = Reading { http: &http, folder, draft };
    reading.server(chosen);
    Ok(())
}

/// A `server` with the locations that proxy.
struct Server<'a> {
    directive: &'a Directive,
    routes: Vec<Route<'a>>,
}

/// A location that proxies, or one that does something else.
struct Route<'a> {
    location: &'a Directive,
    /// The path, or the regular expression with `~`.
    path: String,
    pass: &'a Directive,
}

impl<'a> Server<'a> {
    fn of(directive: &'a Directive) -> Server<'a> {
        let mut routes = Vec::new();
        find_routes(directive, &mut routes);
        Server { directive, routes }
    }

    fn block(&self) -> &'a [Directive] {
        self.directive.block.as_deref().unwrap_or_default()
    }

    fn has_tls(&self) -> bool {
        self.block().iter().any(|d| d.name == "listen" && d.args.iter().any(|a| a == "ssl"))
    }

    fn serves_engines(&self) -> bool {
        self.routes.iter().any(|route| is_engine_path(&route.path))
    }

    /// Notes a server that is not converted.
    fn leave(&self, draft: &mut Draft) {
        let listen = self.block().iter().find(|d| d.name == "listen");
        let listen = listen.and_then(|d| d.args.first()).map_or("80", String::as_str);
        let found = Found::new("server with listen", listen, &self.directive.place);
        match self.routes.is_empty() {
            true => draft.note(
                &found,
                "it proxies nothing (a redirect, files)",
                "keep nginx for it where clients need it",
            ),
            false => draft.note(
                &found,
                "a gateway has one address, and another server is converted",
                "import that server from a file of its own and run a second gateway",
            ),
        }
    }
}

fn find_routes<'a>(parent: &'a Directive, routes: &mut Vec<Route<'a>>) {
    for location in parent.block.iter().flatten().filter(|d| d.name == "location") {
        let pass = location.block.iter().flatten().find(|d| d.name == "proxy_pass");
        let path = match location.args.as_slice() {
            [mark, path] if mark.starts_with('~') => format!("~{path}"),
            [.., path] => path.clone(),
            [] => String::new(),
        };
        routes.extend(pass.map(|pass| Route { location, path, pass }));
        find_routes(location, routes);
    }
}

fn choose<'s, 'a>(servers: &'s [Server<'a>]) -> &'s Server<'a> {
    let rank = |server: &&Server<'_>| {
        (server.serves_engines(), !server.routes.is_empty(), server.has_tls())
    };
    // Reversed, because max_by_key returns the last of several equal servers.
    servers.iter().rev().max_by_key(rank).unwrap_or(&servers[0])
}

/// Paths that engines serve besides those of OpenAI.
const ENGINE_PATHS: [&str; 8] = [
    "/generate",
    "/tokenize",
    "/detokenize",
    "/completion",
    "/chat/completions",
    "/completions",
    "/embeddings",
    "/generate_stream",
];

fn is_engine_path(path: &str) -> bool {
    let bare = path.trim_end_matches('/');
    let expression = path.starts_with('~') && path.contains("v1");
    bare.is_empty() || path.contains("/v1") || expression || ENGINE_PATHS.contains(&bare)
}

/// The conversion of one server.
struct Reading<'a, 'd> {
    http: &'a [&'a Directive],
    folder: Option<&'a std::path::Path>,
    draft: &'d mut Draft,
}

impl Reading<'_, '_> {
    fn server(&mut self, server: &Server<'_>) {
        let all = !server.serves_engines();
        let (engines, others): (Vec<&Route<'_>>, Vec<&Route<'_>>) =
            server.routes.iter().partition(|route| all || is_engine_path(&route.path));
        for route in &engines {
            self.path(route);
            self.pass(route);
        }
        for route in others {
            let found = Found::new("location", &route.path, &route.location.place);
            let remedy = "keep nginx for it, on another port or host name";
            self.draft.note(&found, "it is not a path of an engine's API", remedy);
        }
        for location in server.block().iter().filter(|d| d.name == "location") {
            self.plain_location(location, server);
        }
        self.listen(server);
        self.scopes(server, &engines);
    }

    /// Notes a location without proxy_pass, which nginx answers itself.
    fn plain_location(&mut self, location: &Directive, server: &Server<'_>) {
        let path = location.args.last().map_or("", String::as_str);
        let proxies = server.routes.iter().any(|route| std::ptr::eq(route.location, location));
        let nested = location.block.iter().flatten().any(|d| d.name == "location");
        if proxies || nested {
            return;
        }
        if ["/health", "/ready"].contains(&path) {
            self.draft.needless(&format!("location {path}"));
            return;
        }
        let found = Found::new("location", path, &location.place);
        let remedy = "keep nginx for it, on another port or host name";
        self.draft.note(&found, "it has no proxy_pass", remedy);
    }

    /// Converts a location's path.
    fn path(&mut self, route: &Route<'_>) {
        let found = Found::new("location", &route.path, &route.location.place);
        let bare = route.path.trim_end_matches('/');
        if route.path.starts_with('~') {
            let why = "regular expressions are not evaluated";
            let remedy = "nothing to do where it covers /v1: the gateway serves OpenAI's paths; others go into `paths`";
            self.draft.note(&found, why, remedy);
        } else if ["/generate", "/completion", "/generate_stream"].contains(&bare) {
            self.draft.set("paths", super::value::list([bare]), &found);
        } else if !(bare.is_empty() || bare.starts_with("/v1")) {
            let why = "the gateway chooses by the model in the request, not by the path";
            self.draft.note(&found, why, "let clients call /v1/... and name the model");
        }
    }

    /// Converts the target of a location.
    fn pass(&mut self, route: &Route<'_>) {
        let target = route.pass.args.first().map_or("", String::as_str);
        let found = Found::new("proxy_pass", target, &route.pass.place);
        if target.contains('$') {
            let why = "variables are not evaluated";
            self.draft.note(&found, why, "add the addresses that it takes to `replicas`");
            return;
        }
        if target.contains('@') {
            let found = Found::hidden("proxy_pass", &route.pass.place);
            let remedy = "add the address to `replicas`, and the password to engine_key";
            self.draft.note(&found, "it contains a user name", remedy);
            return;
        }
        let (scheme, rest) = target.split_once("://").unwrap_or(("", target));
        if rest.starts_with("unix:") {
            let remedy = "let the engine listen on a port";
            self.draft.note(&found, "replicas are reached over TCP", remedy);
            return;
        }
        let (host, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        if !matches!(path, "" | "/" | "/v1" | "/v1/") {
            let why = "paths are not rewritten";
            self.draft.note(&found, why, "let the engine serve its API at /v1");
        }
        let upstream = self
            .http
            .iter()
            .find(|d| d.name == "upstream" && d.args.first().is_some_and(|name| name == host));
        match upstream {
            Some(upstream) => upstream::read(upstream, scheme, self.draft),
            None => drop(self.draft.replica(&format!("{scheme}://{host}"), 1, &found)),
        }
    }

    fn listen(&mut self, server: &Server<'_>) {
        let mut listens: Vec<&Directive> =
            server.block().iter().filter(|d| d.name == "listen").collect();
        listens.sort_by_key(|d| !d.args.iter().any(|arg| arg == "ssl"));
        for directive in &listens {
            directives::listen(directive, self.draft);
        }
        if listens.is_empty() {
            let found =
                Found::new("server", "without listen, nginx's default", &server.directive.place);
            self.draft.listen(([0, 0, 0, 0], 80).into(), &found);
        }
    }

    /// Converts the directives in force at the locations, the nearest first.
    fn scopes(&mut self, server: &Server<'_>, engines: &[&Route<'_>]) {
        let mut done: Vec<&str> = Vec::new();
        for route in engines {
            for directive in route.location.block.iter().flatten() {
                self.apply(directive, server.has_tls());
                done.push(&directive.name);
            }
        }
        let outer = [server.block().iter().collect::<Vec<_>>(), self.http.to_vec()];
        for scope in &outer {
            let names: Vec<&str> = scope.iter().map(|d| d.name.as_str()).collect();
            for directive in scope {
                if !done.contains(&directive.name.as_str()) {
                    self.apply(directive, server.has_tls());
                }
            }
            done.extend(names);
        }
    }

    fn apply(&mut self, directive: &Directive, has_tls: bool) {
        let Directive { name, args, place, .. } = directive;
        if name.starts_with("ssl_certificate") && !has_tls {
            return self.draft.needless(name);
        }
        let (value, folder) = (args.join(" "), self.folder);
        act(name).apply((name, &value, place), self.draft, |convert, _, draft| {
            convert(directive, folder, draft);
        });
    }
}
