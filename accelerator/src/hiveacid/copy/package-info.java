/** Copies files as they are, in tasks. */
package hiveacid.copy;
