// The modules of the page that are pure logic, for the tests.

const PAGE = new URL("../../src/dsv4/_playground/page/", import.meta.url);

/** @param {string} name */
export const page = (name) => import(new URL(name, PAGE).href);
