// Keeps the files of this build, so that a second visit needs no network. VERSION is the build's own
// mark, and an older build's files go when a newer one takes over. FIRST are the files that the page
// has loaded before there was anybody to keep them; Python waits, and is kept as it is loaded.

const VERSION = "";
const FIRST = [];
const KEPT = `dsv4-playground-${VERSION}`;

self.addEventListener("install", (event) => {
  self.skipWaiting();
  event.waitUntil(caches.open(KEPT).then((cache) => cache.addAll(FIRST)));
});

self.addEventListener("activate", (event) => {
  const clean = async () => {
    for (const name of await caches.keys())
      if (name.startsWith("dsv4-playground-") && name !== KEPT) await caches.delete(name);
    await self.clients.claim();
  };
  event.waitUntil(clean());
});

self.addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.method !== "GET" || !request.url.startsWith(self.registration.scope)) return;
  // The page itself is asked for anew, so that a newer build is seen; without a network, kept.
  event.respondWith(request.mode === "navigate" ? newest(request) : kept(request));
});

async function kept(request) {
  const cache = await caches.open(KEPT);
  const known = await cache.match(request);
  if (known) return known;
  const response = await fetch(request);
  if (response.ok) await cache.put(request, response.clone());
  return response;
}

async function newest(request) {
  const cache = await caches.open(KEPT);
  try {
    const response = await fetch(request);
    if (response.ok) await cache.put(request, response.clone());
    return response;
  } catch (error) {
    const known = (await cache.match(request)) ?? (await cache.match("./"));
    if (known) return known;
    throw error;
  }
}
