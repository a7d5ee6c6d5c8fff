// What components share: data that renews itself, the address, the clock, what happened.

import { ApiError, get } from "./api.js";
import { NOT_ASKED, afterFetch, describeError, fromQuery, nextDelay, toQuery } from "./state.js";

const { React, ReactRouterDOM } = globalThis;
const { createContext, useCallback, useContext, useEffect, useMemo, useReducer, useRef, useState, useSyncExternalStore } = React;

/** Milliseconds between two looks. */
export const INTERVAL = 5000;

/** `{connection, canAct, notify, confirm, navigate, live}` for everything below the page. */
export const Page = createContext(null);

export function usePage() {
  return useContext(Page);
}

/**
 * Data of a path, fetched now and again while the page is seen.
 *
 * The last good answer stays until there is a better one; failures are retried less and less often.
 * @param path null: nothing to ask.
 * @returns the state of afterFetch, and `reload`.
 */
export function useData(path, query = {}, { interval = INTERVAL } = {}) {
  const { live = true, answered } = useContext(Page) ?? {};
  const key = path === null ? null : path + toQuery(query);
  const [state, dispatch] = useReducer(afterFetch, NOT_ASKED);
  const [asked, reload] = useReducer((n) => n + 1, 0);
  const shown = useRef({ path: null, key: null });
  useEffect(() => {
    if (key === null) return undefined;
    // Another thing: nothing of the old one is shown. The same list asked otherwise stays, greyed, until the answer.
    if (shown.current.path !== path) { dispatch({ type: "forget" }); shown.current = { path, key: null }; }
    const stop = new AbortController();
    let timer = null, failures = 0, busy = false, over = false;
    const look = async () => {
      timer = null;
      if (busy || over || document.hidden) return;
      busy = true;
      dispatch({ type: "asked" });
      try {
        const data = await get(key, {}, stop.signal);
        failures = 0;
        if (over) return;
        shown.current = { path, key };
        dispatch({ type: "answered", data, at: Date.now() });
        answered?.(null);
      } catch (error) {
        if (over || error.name === "AbortError") return;
        failures += 1;
        const told = error instanceof ApiError ? error.told : describeError(500, null);
        dispatch({ type: "failed", error: told });
        answered?.(told);
      } finally {
        busy = false;
      }
      plan();
    };
    const plan = () => {
      if (!over && live && interval && !document.hidden) timer = setTimeout(look, nextDelay(interval, failures));
    };
    const seen = () => {
      clearTimeout(timer);
      if (!document.hidden && live) look();
    };
    document.addEventListener("visibilitychange", seen);
    look();
    return () => {
      over = true;
      stop.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
    };
  }, [path, key, interval, live, asked, answered]);
  const current = shown.current.path === path ? state : NOT_ASKED;
  return { ...current, stale: current.data !== null && shown.current.key !== key, reload };
}

const listeners = new Set();
let ticking = null, ticked = Date.now();

function onTick(listener) {
  listeners.add(listener);
  ticking ??= setInterval(() => {
    if (document.hidden) return;
    ticked = Date.now();
    for (const one of listeners) one();
  }, 1000);
  return () => {
    listeners.delete(listener);
    if (!listeners.size) { clearInterval(ticking); ticking = null; }
  };
}

/** Milliseconds of this machine's clock, once a second: one timer for all ages on the page. */
export function useTick() {
  return useSyncExternalStore(onTick, () => ticked);
}

/**
 * How far the metastore's clock is ahead of this machine's, in milliseconds, from an answer's `now`.
 *
 * It stays the same number while it is about the same time, so that rows need not be drawn anew.
 */
export function useClock(state) {
  const known = useRef(0);
  if (state.data?.now && state.at) {
    const ahead = state.data.now - state.at;
    if (Math.abs(ahead - known.current) > 1500) known.current = ahead;
  }
  return known.current;
}

/** The query string and a function that changes it; Airflow's router if it shares one, else the browser's history. */
export const useAddress = ReactRouterDOM?.useSearchParams ? useRouterAddress : useHistoryAddress;

function useRouterAddress() {
  const [params, setParams] = ReactRouterDOM.useSearchParams();
  const set = useRef(setParams);
  set.current = setParams;
  const change = useCallback((query, replace = false) => set.current(new URLSearchParams(query), { replace }), []);
  return [params.toString(), change];
}

function useHistoryAddress() {
  const [search, setSearch] = useState(() => location.search);
  useEffect(() => {
    const moved = () => setSearch(location.search);
    addEventListener("popstate", moved);
    return () => removeEventListener("popstate", moved);
  }, []);
  const change = useCallback((query, replace = false) => {
    history[replace ? "replaceState" : "pushState"](null, "", location.pathname + query);
    setSearch(query);
  }, []);
  return [search.replace(/^\?/, ""), change];
}

/** A view's filters in the address: `[values, change]`; every change but that of the page goes back to the first one. */
export function useFilters(defaults) {
  const { search, go } = usePage();
  const values = useMemo(() => fromQuery(search, { ...defaults, cursor: "" }), [search]);
  const change = (some, replace = false) => {
    const next = { cursor: "", ...values, ...("cursor" in some ? {} : { cursor: "" }), ...some };
    go(toQuery({ ...Object.fromEntries(new URLSearchParams(search)), ...next }, { ...defaults, view: "overview" }), replace);
  };
  return [values, change];
}
