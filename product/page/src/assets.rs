//! The embedded files, each with its path and a hash of its content.

/// A file of the page.
pub(crate) struct Asset {
    pub(crate) path: &'static str,
    pub(crate) text: &'static str,
    pub(crate) hash: u64,
}

impl Asset {
    const fn new(path: &'static str, text: &'static str) -> Asset {
        assert!(path.as_bytes()[0] == b'/', "a path begins with a slash");
        assert!(!text.is_empty(), "a file of the page has content");
        Asset { path, text, hash: hash(text.as_bytes()) }
    }

    pub(crate) fn kind(&self) -> &'static str {
        match self.path.rsplit('.').next() {
            Some("js") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("txt") => "text/plain; charset=utf-8",
            _ => "text/html; charset=utf-8",
        }
    }
}

/// FNV-1a: it names a version of a file, and protects from nothing.
const fn hash(bytes: &[u8]) -> u64 {
    let (mut hash, mut at) = (0xcbf2_9ce4_8422_2325_u64, 0);
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    hash
}

macro_rules! files {
    ($($path:literal from $file:literal),+ $(,)?) => {
        &[$(Asset::new($path, include_str!(concat!("../", $file)))),+]
    };
}

/// The files that every program serves.
pub(crate) static FILES: &[Asset] = files![
    "/" from "assets/index.html",
    "/login" from "assets/login.html",
    "/login.js" from "assets/login.js",
    "/page/base.css" from "assets/base.css",
    "/page/page.css" from "assets/page.css",
    "/page/parts.css" from "assets/parts.css",
    "/page/main.js" from "assets/js/main.js",
    "/page/bars.js" from "assets/js/bars.js",
    "/page/charts.js" from "assets/js/charts.js",
    "/page/decisions.js" from "assets/js/decisions.js",
    "/page/dom.js" from "assets/js/dom.js",
    "/page/figures.js" from "assets/js/figures.js",
    "/page/format.js" from "assets/js/format.js",
    "/page/head.js" from "assets/js/head.js",
    "/page/land.js" from "assets/js/land.js",
    "/page/map.js" from "assets/js/map.js",
    "/page/model.js" from "assets/js/model.js",
    "/page/places.js" from "assets/js/places.js",
    "/page/rules.js" from "assets/js/rules.js",
    "/page/saved.js" from "assets/js/saved.js",
    "/page/sides.js" from "assets/js/sides.js",
    "/page/theme.js" from "assets/js/theme.js",
    "/page/tiles.js" from "assets/js/tiles.js",
    "/page/uplot.js" from "vendor/uplot/uPlot.iife.min.js",
    "/page/uplot.css" from "vendor/uplot/uPlot.min.css",
    "/page/uplot-licence.txt" from "vendor/uplot/LICENSE",
];

/// Where the state comes from, by program.
pub(crate) static SOURCES: [Asset; 2] = [
    Asset::new("/page/source.js", include_str!("../assets/js/source-gateway.js")),
    Asset::new("/page/source.js", include_str!("../assets/js/source-up.js")),
];
