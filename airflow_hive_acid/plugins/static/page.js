// Hive ACID's page in Airflow: an ES module without a build, made of the React and the Chakra that Airflow shares.
//
// Airflow imports this file and shows what it puts into globalThis. Where nothing is shared, the plain page takes over.

const HERE = new URL(".", import.meta.url);
const NAME = "Hive ACID";

async function load() {
  if (typeof globalThis.React?.createElement !== "function" || !globalThis.React.useSyncExternalStore) return plain;
  if (!document.querySelector("link[data-hive-acid]")) {
    const sheet = document.createElement("link");
    sheet.rel = "stylesheet";
    sheet.href = new URL("page.css", HERE).href;
    sheet.dataset.hiveAcid = "";
    const loaded = new Promise((done) => { sheet.onload = done; sheet.onerror = done; });
    document.head.append(sheet);
    await loaded;
  }
  return (await import("./app.js")).App;
}

/** Airflow shares no React: a component of any React may return a text, and the plain page needs nobody. */
function plain() {
  const url = new URL("../", HERE);
  queueMicrotask(() => location.replace(url));
  return `This Airflow shares no components with its plugins; the plain page is at ${url}`;
}

const component = await load();
globalThis[NAME] = component;
globalThis.AirflowPlugin = component;
